"""Does this checkout's .venv hold what the locks ask for? If not, bring it, with a line for each step.

Run by whatever `python3` is there, so it is written for old ones too: one that is too old is told so.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
LEAST = (3, 11)
NEWER = ("python3.13", "python3.12", "python3.11", "python3.14")


def main(locks):
    # What is already installed for the first lock need not be asked for again by the second.
    wanted = [lock for lock in locks if read(stamp_of(lock)) != digest(lock)]
    if not wanted and runs(PYTHON):
        return
    started_at = time.time()
    if not runs(PYTHON):
        wanted = locks
        python = find_python()
        shutil.rmtree(VENV, ignore_errors=True)
        say(f"making .venv with {python}")
        make_venv(python)
    for lock in wanted:
        install(lock)
        with open(stamp_of(lock), "w") as file:
            file.write(digest(lock))
    say(f"installed in {time.time() - started_at:.0f} s")


def find_python():
    if sys.version_info >= LEAST:
        return sys.executable
    for name in NEWER:
        path = shutil.which(name)
        if path:
            return path
    return give_up(
        f"Python {LEAST[0]}.{LEAST[1]} or newer is needed, and {sys.executable} is "
        f"{sys.version_info[0]}.{sys.version_info[1]}; install one, or say `make PYTHON=/path/to/python3 up`"
    )


def make_venv(python):
    done = subprocess.run([python, "-m", "venv", VENV], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0 and os.path.exists(os.path.join(VENV, "bin", "pip")):
        return
    shutil.rmtree(VENV, ignore_errors=True)
    text = done.stdout.decode(errors="replace").strip()
    if done.returncode == 0 or "ensurepip" in text or "No module named venv" in text:
        give_up(f"{python} cannot make a venv with pip in it; on Debian: apt-get install python3-venv")
    give_up(f"{python} -m venv failed: {text.splitlines()[-1] if text else 'it said nothing'}")


def install(lock):
    with open(os.path.join(ROOT, lock)) as file:
        pins = re.findall(r"^([A-Za-z0-9_.-]+)==", file.read(), re.MULTILINE)
    say(f"installing the {len(pins)} packages of {lock}")
    # The lock names everything that is needed, so nothing has to be resolved.
    command = [PYTHON, "-m", "pip", "install", "--no-deps", "--require-hashes", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "-r", lock]
    seen, tail = 0, []
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for raw in process.stdout:
        line = raw.decode(errors="replace").rstrip()
        tail = [*tail, line][-5:]
        found = re.match(r"(Collecting|Requirement already satisfied:) ([A-Za-z0-9_.-]+)==(\S+)", line)
        if found:
            seen += 1
            if found.group(1) == "Collecting":
                say(f"{seen:3d}/{len(pins)}  {found.group(2)} {found.group(3)}")
        elif line.startswith("Installing collected"):
            say("unpacking them")
    if process.wait() != 0:
        faults = [line for line in tail if line.startswith("ERROR")] or tail[-1:]
        give_up(f"pip could not install {lock}: {' '.join(faults)}")


def stamp_of(lock):
    return os.path.join(VENV, lock + ".stamp")


def digest(lock):
    # A venv that was moved or copied does not run.
    with open(os.path.join(ROOT, lock), "rb") as file:
        return hashlib.sha256(VENV.encode() + b"\0" + file.read()).hexdigest()


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def runs(python):
    try:
        return subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def say(text):
    print(text, flush=True)


def give_up(text):
    print(f"sluicegate: {text}", file=sys.stderr, flush=True)
    sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
