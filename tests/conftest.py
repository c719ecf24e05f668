"""What can every test ask for? A real Redis, a gate on it, a whole installation, a page in a real browser."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# The settings are read when Django is first asked for one, so this comes before every other import: a test
# never reads or writes the installation in this checkout.
_OWN_DIR = tempfile.mkdtemp(prefix="sg-tests-")
#: "postgresql" runs what touches the database on a real server instead of SQLite (`-m database`).
_DATABASE = os.environ.get("SLUICEGATE_TESTS_DATABASE", "sqlite")
for _name in [name for name in os.environ if name.startswith("SLUICEGATE_")]:
    del os.environ[_name]
os.environ["SLUICEGATE_DATA_DIR"] = _OWN_DIR
os.environ["SLUICEGATE_DRILLS"] = "1"
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
# Playwright runs an event loop in the test's thread; Django would refuse the database there.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

from tests.support.postgres import PostgresServer, find_programs

_DATABASE_SERVER = PostgresServer() if _DATABASE == "postgresql" else None
if _DATABASE_SERVER is not None:
    _DATABASE_SERVER.start()
    os.environ["SLUICEGATE_DATABASE_URL"] = _DATABASE_SERVER.url

import django
import pytest
from django.conf import settings as django_settings
from hypothesis import settings as hypothesis_settings

# What an example takes says more of the machine than of the code.
hypothesis_settings.register_profile("any machine", deadline=None)
hypothesis_settings.load_profile("any machine")

django.setup()

from tests.support.servers import RedisServer
from tests.support.stack import Stack
from workers.store import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

assert str(django_settings.SLUICEGATE_DATA_DIR) == str(Path(_OWN_DIR).resolve())

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("soak") and "soak" not in (config.option.markexpr or ""):
            item.add_marker(pytest.mark.skip(reason="takes minutes: -m soak"))
        if {"page", "browser"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.browser)
    # Playwright leaves an event loop running in this thread, where asgiref would refuse to work.
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


def pytest_report_header() -> str:
    return f"database of the tests: {_DATABASE}"


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest) -> bool:
    """A PostgreSQL of the tests goes as a whole; to drop its database fails while any session is open."""
    return _DATABASE_SERVER is not None or bool(request.config.option.reuse_db)


def pytest_unconfigure() -> None:
    if _DATABASE_SERVER is not None:
        _DATABASE_SERVER.remove()
    shutil.rmtree(_OWN_DIR, ignore_errors=True)


@pytest.fixture(scope="session")
def short_dir() -> Iterator[Path]:
    """A directory with a short name: a socket's path has room for about a hundred bytes."""
    path = Path(tempfile.mkdtemp(prefix="sg-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def redis_server(short_dir: Path) -> Iterator[RedisServer]:
    """One server for all tests; a test that stops it brings it back (or starts its own ``RedisServer``)."""
    server = RedisServer(short_dir / "redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of an empty database on the server of the tests."""
    if redis_server.process is None or redis_server.process.poll() is not None:
        redis_server.start()
    with Store.from_url(redis_server.url()).client as client:
        client.config_set("maxmemory", 256 << 20)
        client.flushall()
        client.config_resetstat()
    return redis_server.url()


@pytest.fixture
def store(redis_url: str) -> Iterator[Store]:
    """A gate called main, without policies, on an empty Redis."""
    store = Store.from_url(redis_url)
    yield store
    store.client.close()


#: Begins the names of installations that a whole directory of tests shares and ends itself.
LASTING = "field "
_stacks: dict[tuple[str, tuple[tuple[str, str], ...]], Stack] = {}


@pytest.fixture(scope="session")
def gate_up() -> Iterator[Callable[..., Stack]]:
    """Starts whole installations, one a set of settings: ``gate_up()``, ``gate_up(SLUICEGATE_DEMO="1")``.

    A test that breaks its installation for good asks for one of its own: ``gate_up(name="mine")``. Each stops
    at the end of the module that asked for it: an idle one costs the tests of others their time.
    """
    stacks = _stacks
    root = Path(tempfile.mkdtemp(prefix="sg-up-"))

    def start(*, name: str = "", **settings: str) -> Stack:
        wanted = (name, tuple(sorted(settings.items())))
        stack = stacks.get(wanted)
        if stack is None or stack.process is None or stack.process.poll() is not None:
            stack = stacks[wanted] = stack or Stack(root / f"d{len(stacks)}", **settings)
            stack.start()
        return stack

    yield start
    for stack in stacks.values():
        stack.end()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _leave_nothing_up() -> Iterator[None]:
    yield
    for (name, _), stack in _stacks.items():
        if not name.startswith(LASTING):
            stack.end()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that runs; a test that stops or freezes it brings it back."""
    if find_programs() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no PostgreSQL on this machine; `make test` installs it where it may")
        pytest.skip("no PostgreSQL on this machine")
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    binary = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if binary is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no Chromium on this machine; `make test` installs it where it may")
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=binary, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page with cookies and storage of its own; errors on the page fail the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    yield page
    context.close()
    assert not faults, f"the page raised: {faults}"
