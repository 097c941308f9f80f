"""Ways out of a sandbox that a step may try: each a real command, what it needs outside, and how it shows that it got
out. Nothing here is harmful where it succeeds, unless it says so."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["ESCAPES", "Escape", "Place", "by_network", "made", "python", "tells_in_the_workspace"]

SECRET = "what-nobody-may-see"
LIBC = ctypes.CDLL(None, use_errno=True)


class Place(NamedTuple):
    """A workspace, and beside it what a step must not reach."""

    base: Path
    name: str
    """Told apart from everything else on the machine."""
    victim: int
    """A process outside, with a secret in its environment."""
    heard: list[socket.socket]
    """What listens outside, whatever it is."""
    held: int
    """A file that the harness has open."""

    @property
    def ws(self) -> Path:
        return self.base / "ws"

    @property
    def out(self) -> Path:
        return self.base / "outside"

    def fill(self, text: str) -> str:
        names = {"OUT": self.out, "HOME_": self.base / "home", "STATE": self.base / "state", "NAME": self.name}
        names |= {"KEY": _key(self), "VICTIM": self.victim, "SECRET": SECRET, "PORT": self.port, "BASE": self.base}
        for name, value in names.items():
            text = text.replace(f"@{name}", str(value))
        return text

    @property
    def port(self) -> int:
        inet = [one for one in self.heard if one.family in (socket.AF_INET, socket.AF_INET6)]
        return int(inet[0].getsockname()[1]) if inet else 0

    def was_heard(self) -> bool:
        for one in self.heard:
            one.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                if one.type is socket.SOCK_STREAM:
                    one.accept()[0].close()
                else:
                    one.recv(10)
                return True
        return False

    def was_written(self) -> bool:
        """Whether anything outside is not as it was."""
        out = sorted(path.name for path in self.out.iterdir() if not path.is_socket())
        return out != ["held", "target"] or any((self.out / one).read_text() != "untouched\n" for one in out)


class Escape(NamedTuple):
    name: str
    command: str
    got_out: Callable[[Place], bool]
    free: bool | None = True
    """Whether it gets out at tier 0; None where it would do harm there, or nobody can say."""
    root: bool = False
    """Whether it takes root to get out at tier 0."""
    before: Callable[[Place], object] = lambda place: None
    writes: tuple[str, ...] = ()


@contextlib.contextmanager
def made(base: Path) -> Iterator[Place]:
    for name in ("ws", "outside", "home/.ssh", "ws/src"):
        (base / name).mkdir(parents=True)
    for name in ("held", "target"):
        (base / "outside" / name).write_text("untouched\n")
    (base / "home/.ssh/id_ed25519").write_text(f"{SECRET}\n")
    (base / "ws/ordinary").write_text("ordinary\n")
    (base / "ws/ordain.toml").write_text("# none\n")
    (base / "ws/.ordain/plans").mkdir(parents=True)
    (base / "ws/.ordain/plans/copy.md").write_text("a copy\n")
    held = os.open(base / "outside/held", os.O_RDWR)
    name = f"ordain-{os.path.basename(tempfile.mktemp())}"
    env = {"PATH": "/usr/bin:/bin", "HIDDEN": SECRET}
    with subprocess.Popen(["sleep", "600"], env=env, start_new_session=True) as victim:
        place = Place(base, name, victim.pid, [], held)
        try:
            yield place
        finally:
            victim.kill()
            os.close(held)
            for one in place.heard:
                one.close()
            if (base / "segment").exists():
                LIBC.shmctl(int((base / "segment").read_text()), 0, None)  # take it away
            shutil.rmtree(f"/tmp/ordain-agent-{name}", ignore_errors=True)
            for left in (f"/tmp/{name}", f"/var/tmp/{name}", f"/dev/shm/{name}", f"/run/{name}"):
                Path(left).unlink(missing_ok=True)


def python(text: str) -> str:
    return f"python3 -c {shlex.quote(text)}"


# --- How it shows ----------------------------------------------------------------------------------------------------


def outside(place: Place) -> bool:
    return place.was_written()


def got(place: Place) -> bool:
    """What it saw or did it has told in the workspace, where it may."""
    file = place.ws / "got"
    return file.exists() and file.stat().st_size > 0


def at(path: str) -> Callable[[Place], bool]:
    return lambda place: Path(place.fill(path)).exists()


def changed(path: str, was: str) -> Callable[[Place], bool]:
    return lambda place: not (place.ws / path).is_file() or (place.ws / path).read_text() != was


def heard(place: Place) -> bool:
    return place.was_heard()


def killed(place: Place) -> bool:
    return os.waitpid(place.victim, os.WNOHANG)[0] != 0


def at_work(place: Place) -> bool:
    """Whether something bears our name and is still there."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with contextlib.suppress(OSError):
                if place.name.encode() in (path / "cmdline").read_bytes():
                    os.kill(int(path.name), signal.SIGKILL)
                    return True
    return False


# --- What it needs ---------------------------------------------------------------------------------------------------


def repository(place: Place) -> None:
    """As git makes it, but without hooks."""
    for name in ("objects", "refs"):
        (place.ws / ".git" / name).mkdir(parents=True)
    (place.ws / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (place.ws / ".git/config").write_text("[core]\n")


def hooked(place: Place) -> None:
    repository(place)
    (place.ws / ".git/hooks").mkdir()
    (place.ws / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")


def bare(place: Place) -> None:
    """Nothing there yet."""
    (place.ws / "ordain.toml").unlink()


def listens(family: int, kind: int, address: str) -> Callable[[Place], None]:
    def listen(place: Place) -> None:
        one = socket.socket(family, kind)
        one.bind((address, 0) if family != socket.AF_UNIX else place.fill(address))
        if kind == socket.SOCK_STREAM:
            one.listen()
        place.heard.append(one)

    return listen


def another_attempt(place: Place) -> None:
    """An agent at work, with the private directory that it has."""
    room = Path(f"/tmp/ordain-agent-{place.name}")
    room.mkdir(mode=0o700)
    (room / "token").write_text(f"{SECRET}\n")


def shares_memory(place: Place) -> None:
    (place.base / "segment").write_text(str(LIBC.shmget(_key(place), 4096, 0o1600)))


def _key(place: Place) -> int:
    return 0x0DA1_0000 | place.victim & 0xFFFF


def has_a_key(place: Place) -> None:
    # add_key("user", NAME, …, the session's keyring)
    LIBC.syscall(248, b"user", place.name.encode(), SECRET.encode(), len(SECRET), -3)


UNIX = """
import socket
one = socket.socket(socket.AF_UNIX)
one.connect("@ADDRESS".replace("^", chr(0)))
one.send(b"x")
"""
DATAGRAM = """
import socket
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    one, other = socket.socketpair(socket.AF_UNIX, kind)  # programs have these
    one.send(b"x"), other.recv(1)
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    try:
        socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b"x", "@BASE/ws/d")
    except OSError:
        pass
"""
MADE_SO = """
import os
os.umask(0)
for mode in (0o4755, 0o2755):
    for number, make in enumerate((
        lambda path: os.open(path, os.O_CREAT | os.O_WRONLY, mode),
        lambda path: os.mknod(path, mode),
        lambda path: os.chmod(path, mode),
    )):
        try:
            open(f"made{number}{mode}", "w") if number == 2 else None
            make(f"made{number}{mode}")
        except OSError:
            pass
"""
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        for number in range(3): os.close(number)
        os.execve("/bin/sh", ["@NAME", "-c", "sleep 30; : @NAME"], {})
    os._exit(0)
time.sleep(0.1)
"""
PTRACE = """
import ctypes, os
libc = ctypes.CDLL(None)
if libc.ptrace(16, @VICTIM, 0, 0) == 0:
    open("got", "w").write("attached")
    os.waitpid(@VICTIM, 0)
    libc.ptrace(17, @VICTIM, 0, 0)
"""
KEYS = """
import ctypes
libc, room = ctypes.CDLL(None), ctypes.create_string_buffer(99)
key = libc.syscall(249, b"user", b"@NAME", None, 0)
if key > 0 and libc.syscall(250, 11, key, room, 99) > 0:
    open("got", "w").write(room.value.decode())
"""
TYPES = """
import fcntl, termios
with open("/dev/tty") as terminal:
    fcntl.ioctl(terminal, termios.TIOCSTI, b"x")
open("got", "w").write("typed")
"""
FD = 'for fd in /proc/[0-9]*/fd/*; do if [ "$(readlink $fd)" = @OUT/held ]; then echo x > $fd; fi; done'
DEVICE = "for d in /dev/[sv]d? /dev/nvme?n? /dev/mem; do if [ -r $d ]; then head -c 9 $d > got; fi; done"
IO_URING = """
import ctypes
if ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120)) >= 0:
    open("got", "w").write("x")
"""
SAME = "/proc/sys/kernel/panic"
"""Set to what it is."""
HOOK = at("@BASE/ws/.git/hooks/post-checkout")

ESCAPES = [
    # --- Writing outside
    Escape("an absolute path", "echo x > @OUT/mark", outside),
    Escape("the directory above", "echo x > ../outside/mark", outside),
    Escape("a link in the workspace", "ln -s @OUT out && echo x > out/mark", outside),
    Escape("a hard link to a file outside", "ln @OUT/target hard && echo x > hard", outside),
    Escape("a file moved out", "mv ordinary @OUT/mark", outside),
    Escape("proc self root", "echo x > /proc/self/root@OUT/mark", outside),
    Escape("proc 1 root", "echo x > /proc/1/root@OUT/mark", outside, free=None),
    Escape("proc parent root", "echo x > /proc/$PPID/root@OUT/mark", outside),
    Escape("proc parent cwd", "echo x > /proc/$PPID/cwd/../outside/mark", outside, free=None),
    Escape("a descriptor of the harness", FD, outside),
    Escape("tmp", "echo x > /tmp/@NAME", at("/tmp/@NAME")),
    Escape("var tmp", "echo x > /var/tmp/@NAME", at("/var/tmp/@NAME")),
    Escape("shared memory in dev", "echo x > /dev/shm/@NAME", at("/dev/shm/@NAME")),
    Escape("the system's programs", "echo x > /usr/bin/@NAME", at("/usr/bin/@NAME"), free=None),
    Escape("the system's settings", "echo x > /etc/@NAME", at("/etc/@NAME"), free=None),
    Escape(
        "a cron table", "mkdir -p /var/spool/cron && echo x > /var/spool/cron/@NAME", at("/var/spool/cron/@NAME"), None
    ),
    Escape(
        "the file for what it uses",
        "rm $ORDAIN_USAGE; ln -s @OUT/target $ORDAIN_USAGE; echo x > $ORDAIN_USAGE",
        outside,
    ),
    Escape(
        "what an agent finds in its room",
        "for d in /tmp/ordain-agent-*/; do echo x > $d/x && echo x > got; done",
        got,
        None,
    ),
    Escape("a job for later", "echo 'echo x > @OUT/mark' | at now", outside, free=None),
    Escape("a setting of the kernel", f"v=$(cat {SAME}) && echo $v > {SAME} && echo did > got", got, root=True),
    Escape("a disk", DEVICE, got, free=None),
    Escape("a device node", "mknod node c 1 5 && head -c 1 node > got", got, root=True),
    Escape("a bind mount", "mkdir m && mount --bind / m && echo x > m@OUT/mark", outside, free=None),
    Escape("a remount", "mount -o remount,rw,bind /usr && echo x > /usr/@NAME", at("/usr/@NAME"), free=None),
    Escape("a namespace and a mount", "unshare -Urm mount -t tmpfs none /mnt && echo did > got", got, root=True),
    Escape("a user namespace", "unshare -Ur true && echo did > got", got, root=True),
    Escape("chroot", "chroot /proc/1/root /bin/sh -c 'echo x > @OUT/mark'", outside, free=None),
    Escape("the namespaces of process 1", "nsenter -t 1 -m /bin/sh -c 'echo x > @OUT/mark'", outside, free=None),
    Escape(
        "a program that runs as its owner",
        "cp /bin/true owned && chmod u+s owned",
        lambda place: (place.ws / "owned").exists() and bool((place.ws / "owned").stat().st_mode & 0o4000),
    ),
    Escape(
        "a file that is made to run as another",
        python(MADE_SO),
        lambda place: any(one.stat().st_mode & 0o6000 for one in place.ws.glob("made*")),
    ),
    Escape(
        "a file without end",
        "truncate -s 6G big",
        lambda place: (place.ws / "big").exists() and (place.ws / "big").stat().st_size > 5 << 30,
    ),
    # --- What programs outside act on
    Escape(
        "a hook that is not there yet",
        "mkdir -p .git/hooks; echo x > .git/hooks/post-checkout",
        HOOK,
        before=repository,
    ),
    Escape(
        "a hook that is there",
        "echo x > .git/hooks/pre-commit",
        changed(".git/hooks/pre-commit", "#!/bin/sh\n"),
        before=hooked,
    ),
    Escape(
        "another directory of hooks",
        "mv .git/hooks h; mkdir .git/hooks; echo x > .git/hooks/post-checkout",
        HOOK,
        before=hooked,
    ),
    Escape(
        "another repository", "mv .git g; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout", HOOK, before=hooked
    ),
    Escape("a repository where there is none", "mkdir -p .git; echo x > .git/config", at("@BASE/ws/.git/config")),
    Escape("git's configuration", "echo x >> .git/config", changed(".git/config", "[core]\n"), before=repository),
    Escape(
        "another configuration of git",
        "echo x > c && mv c .git/config",
        changed(".git/config", "[core]\n"),
        before=repository,
    ),
    Escape(
        "git's configuration elsewhere",
        "echo ../evil > .git/commondir",
        lambda place: (place.ws / ".git/commondir").exists(),
        before=repository,
    ),
    Escape("our settings", "echo x > ordain.toml", changed("ordain.toml", "# none\n")),
    Escape("other settings of ours", "rm ordain.toml && echo x > ordain.toml", changed("ordain.toml", "# none\n")),
    Escape("settings of ours where there are none", "echo x > ordain.toml", at("@BASE/ws/ordain.toml"), before=bare),
    Escape("a copy of a plan", "echo x > .ordain/plans/copy.md", changed(".ordain/plans/copy.md", "a copy\n")),
    Escape("all copies", "rm -rf .ordain/plans", changed(".ordain/plans/copy.md", "a copy\n")),
    # --- Reading what nobody may see
    Escape("the ledger", "cat @STATE/workspaces/*/ledger.db > got", got),
    Escape("the state directory", "ls @STATE > got", got),
    Escape("a key", "cat @HOME_/.ssh/id_ed25519 > got", got),
    Escape("the user's home", "cat ~/.ssh/id_ed25519 > got", got),
    Escape("passwords", "cat /etc/shadow > got", got, root=True),
    Escape("the environment of others", "grep -azh @SECRET /proc/[0-9]*/environ > got", got),
    Escape("the room of another agent", "cat /tmp/ordain-agent-@NAME/token > got", got, before=another_attempt),
    Escape("the homes of others", "cat /root/.[a-z]* /home/*/.[a-z]* > got", got, free=None),
    Escape("the memory of others", "grep -m 1 . /proc/@VICTIM/maps > got", got),
    Escape("the harness's own program", "readlink /proc/$PPID/exe | grep python > got", got),
    Escape("what others do", "grep -ac sleep /proc/@VICTIM/cmdline > got", got),
    # --- Networks and sockets
    Escape(
        "TCP",
        "echo x > /dev/tcp/127.0.0.1/@PORT",
        heard,
        before=listens(socket.AF_INET, socket.SOCK_STREAM, "127.0.0.1"),
    ),
    Escape(
        "UDP",
        "echo x > /dev/udp/127.0.0.1/@PORT",
        heard,
        before=listens(socket.AF_INET, socket.SOCK_DGRAM, "127.0.0.1"),
    ),
    Escape("IPv6", "echo x > /dev/tcp/::1/@PORT", heard, before=listens(socket.AF_INET6, socket.SOCK_STREAM, "::1")),
    Escape(
        "a raw socket", python("import socket; socket.socket(2, 3, 1); open('got', 'w').write('x')"), got, root=True
    ),
    Escape(
        "a packet socket", python("import socket; socket.socket(17, 3, 3); open('got', 'w').write('x')"), got, root=True
    ),
    Escape(
        "an abstract socket",
        python(UNIX.replace("@ADDRESS", "^@NAME")),
        heard,
        before=listens(socket.AF_UNIX, socket.SOCK_STREAM, "\0@NAME"),
    ),
    Escape(
        "a socket outside",
        python(UNIX.replace("@ADDRESS", "@OUT/s")),
        heard,
        before=listens(socket.AF_UNIX, socket.SOCK_STREAM, "@OUT/s"),
    ),
    Escape(
        "a socket in the workspace",
        python(UNIX.replace("@ADDRESS", "@BASE/ws/s")),
        heard,
        before=listens(socket.AF_UNIX, socket.SOCK_STREAM, "@BASE/ws/s"),
    ),
    Escape(
        "a pair of sockets without a connection",
        python(DATAGRAM),
        heard,
        before=listens(socket.AF_UNIX, socket.SOCK_DGRAM, "@BASE/ws/d"),
    ),
    Escape(
        "a bus",
        python(UNIX.replace("@ADDRESS", "/run/@NAME")),
        heard,
        root=True,
        before=listens(socket.AF_UNIX, socket.SOCK_STREAM, "/run/@NAME"),
    ),
    Escape(
        "another machine's host", python("import socket; socket.socket(40, 1); open('got', 'w').write('x')"), got, None
    ),
    Escape("io_uring", python(IO_URING), got, free=None),
    # --- Other processes
    Escape("a signal", "kill @VICTIM", killed),
    Escape("a signal to a group", "kill -- -@VICTIM", killed),
    Escape("a descriptor of a process", python("import os; os.pidfd_open(@VICTIM); open('got', 'w').write('x')"), got),
    Escape("ptrace", python(PTRACE), got),
    Escape("shared memory", "ipcs -m | grep $(printf %#010x @KEY) > got", got, before=shares_memory),
    Escape("the kernel's keys", python(KEYS), got, free=None, before=has_a_key),
    Escape("a terminal", python(TYPES), got, free=None),
    Escape("a session of its own", "setsid sh -c 'sleep 30; : @NAME' > /dev/null 2>&1 &", at_work, free=None),
    Escape("nohup", "nohup sh -c 'sleep 30; : @NAME' > /dev/null 2>&1 &", at_work, free=None),
    Escape("a daemon", python(DAEMON), at_work, free=None),
    # --- More than it said that it writes
    Escape(
        "a file it does not write",
        "echo x > ordinary",
        changed("ordinary", "ordinary\n"),
        free=None,
        writes=("src/**",),
    ),
    Escape("a link in what it writes", "ln -s .. src/up && echo x > src/up/got", got, free=None, writes=("src/**",)),
    Escape(
        "a directory in place of what it writes",
        "mv src was; mkdir src; echo x > got",
        got,
        free=None,
        writes=("src/**",),
    ),
    Escape(
        "a hard link into what it writes",
        "ln ordinary src/hard && echo x > src/hard",
        changed("ordinary", "ordinary\n"),
        free=None,
        writes=("src/**",),
    ),
]


def by_network(escape: Escape) -> bool:
    """Whether it only takes the network, which some are given."""
    return escape.name in ("TCP", "UDP", "IPv6")


def tells_in_the_workspace(escape: Escape) -> bool:
    """Whether it shows by a file that one who can write nothing could not make."""
    return escape.got_out is got
