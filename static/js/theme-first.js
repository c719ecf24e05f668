// Sets the stored theme before the first paint, so that the page never flashes in the other one.
try {
  var theme = localStorage.getItem("sluicegate.theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch (error) { /* no storage: the system's preference holds */ }
