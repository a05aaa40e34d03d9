"""Installs each package in a clean root and serves the demo's first scenes there, in front of a scripted model on loopback."""

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from packages import Failed, Release, run, sha256

START_SECONDS_MAX = 60
SUITE = os.environ.get("TOOLMARK_DEBIAN_SUITE", "bookworm")
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
    },
}


class Model(http.server.BaseHTTPRequestHandler):
    """The demo's scripted model: `valid-call` calls as it should, `invented-tool` does so only after a repair."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        invents = request["model"] == "invented-tool" and len(request["messages"]) == 1
        call = {"name": "get_wether_now" if invents else "get_weather", "arguments": '{"city":"Oslo"}'}
        message = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_0", "type": "function", "function": call}]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        answer = {"id": "c", "object": "chat.completion", "created": 0, "model": request["model"], "choices": [choice]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def scenes(command: list[str], environment: dict[str, str], directory: Path | None, health: list[str] | None = None) -> None:
    """Serves with the installed program, plays both scenes through it, and asks its health by this command. Raises what goes wrong."""
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    upstream = f"http://127.0.0.1:{model.server_address[1]}/v1"
    environment = {"PATH": os.environ["PATH"], "TOOLMARK_ADMIN__LISTEN": "off"} | environment
    served = [*command, "serve", "--listen", "127.0.0.1:0", "--upstream", upstream]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(served, env=environment, cwd=directory, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            url = listening(process, log)
            for name, verdict in (("valid-call", "pass"), ("invented-tool", "repaired")):
                request = {"model": name, "messages": [{"role": "user", "content": "What's the weather in Oslo?"}], "tools": [TOOL]}
                headers = {"content-type": "application/json", "authorization": "Bearer sk-of-the-caller"}
                asked = urllib.request.Request(f"{url}/chat/completions", json.dumps(request).encode(), headers)
                with urllib.request.urlopen(asked, timeout=30) as answer:
                    got, body = answer.headers["toolmark-verdict"], json.load(answer)
                call = body["choices"][0]["message"]["tool_calls"][0]["function"]
                if got != verdict or call["name"] != "get_weather" or json.loads(call["arguments"]) != {"city": "Oslo"}:
                    raise Failed(f"{name}: the verdict is {got}, not {verdict}: {body}")
            if health:
                run(*health, "--listen", url.split("/")[2], env=environment)
        finally:
            # The group: the program may be the child of a `chroot` or of `unshare`.
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(40)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                model.shutdown()
                model.server_close()


def listening(process: subprocess.Popen, log) -> str:
    """The base URL, as the log says it."""
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until:
        log.seek(0)
        text = log.read()
        if "OPENAI_BASE_URL=" in text:
            return text.split("OPENAI_BASE_URL=")[1].split()[0]
        if process.poll() is not None:
            raise Failed(f"it ended: {text}")
        time.sleep(0.05)
    raise Failed(f"it doesn't listen: {text}")


def check_version(release: Release, *command) -> None:
    said = run(*command, "--version").strip()
    if said != f"toolmark {release.version}":
        raise Failed(f"it says it is `{said}`")


def test_tarball(release: Release, path: Path, work: Path) -> None:
    with tarfile.open(path) as archive:
        archive.extractall(work, filter="data")
    [root] = work.iterdir()
    program = [str(root / "bin/toolmark")]
    if release.foreign:
        program = [release.tool("", f"qemu-{release.processor}-static", f"qemu-{release.processor}"), *program]
    check_version(release, *program)
    for file in ("share/man/man1/toolmark.1", "share/man/man1/toolmark-serve.1", "share/zsh/site-functions/_toolmark"):
        if not (root / file).stat().st_size:
            raise Failed(f"{file} is empty")
    run("bash", "-n", root / "share/bash-completion/completions/toolmark")
    run(*program, "demo", cwd=root)
    scenes(program, {}, root)


def test_deb(release: Release, path: Path, work: Path) -> None:
    """In a fresh Debian: installed, upgraded with changed settings, removed, purged."""
    root = work / "root"
    cached = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / f"toolmark-ci/{SUITE}.tar"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        run("debootstrap", "--variant=minbase", "--include=libgcc-s1,ca-certificates", SUITE, root)
        run("tar", "-C", root, "-cf", f"{cached}.new", ".")
        Path(f"{cached}.new").rename(cached)
    else:
        root.mkdir()
        run("tar", "-C", root, "-xf", cached)
    inside = ["chroot", str(root)]
    shutil.copy(path, root / "tmp/toolmark.deb")
    run(*inside, "dpkg", "--install", "/tmp/toolmark.deb")
    check_version(release, *inside, "toolmark")
    run(*inside, "toolmark", "demo", cwd=root)
    settings = root / "etc/toolmark/toolmark.toml"
    said = run(*inside, "toolmark", "check", "--config", "/etc/toolmark/toolmark.toml")
    if "All is well." not in said:
        raise Failed(said)
    (root / "var/lib/toolmark").mkdir()
    scenes([*inside, "toolmark", "--config", "/etc/toolmark/toolmark.toml"], {}, None)
    if not (root / "var/lib/toolmark/toolmark.db").exists():
        raise Failed("the ledger isn't in /var/lib/toolmark")
    own = settings.read_text().replace('policy = "default"', 'policy = "strict"')
    settings.write_text(own)
    run(*inside, "dpkg", "--install", "--force-confold", "/tmp/toolmark.deb")
    if settings.read_text() != own:
        raise Failed("an upgrade changed the administrator's settings")
    run(*inside, "dpkg", "--remove", "toolmark")
    if not settings.exists() or (root / "usr/bin/toolmark").exists():
        raise Failed("removal must leave the settings and take the program")
    run(*inside, "dpkg", "--purge", "toolmark")
    if left := [p for p in ("etc/toolmark", "var/lib/toolmark") if (root / p).exists()]:
        raise Failed(f"a purge leaves {left}")
    check_unit(path, work)


def check_unit(path: Path, work: Path) -> None:
    """systemd understands the unit, and calls it safe."""
    run("dpkg-deb", "--extract", path, work / "files")
    if not shutil.which("systemd-analyze"):
        print("    there is no systemd-analyze: the unit wasn't looked at")
        return
    said = run("systemd-analyze", "security", "--offline=true", work / "files/usr/lib/systemd/system/toolmark.service")
    last = said.strip().splitlines()[-1]
    exposure = float(last.split(":")[-1].split()[0])
    print(f"    systemd-analyze security: {exposure} of 10")
    if exposure > 2.5:
        raise Failed(said)


def test_wheel(release: Release, path: Path, work: Path) -> None:
    run(sys.executable, "-m", "venv", work / "venv")
    run(work / "venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index", path)
    program = work / "venv/bin/toolmark"
    check_version(release, program)
    run(program, "demo", cwd=work)
    scenes([str(program)], {}, work)
    run(work / "venv/bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", "toolmark")
    if program.exists():
        raise Failed("uninstalling leaves the program")


def test_npm(release: Release, path: Path, work: Path) -> None:
    (work / "package.json").write_text('{"private": true}\n')
    run("npm", "install", "--offline", "--no-audit", "--no-fund", path, cwd=work)
    program = work / "node_modules/.bin/toolmark"
    check_version(release, program)
    run(program, "demo", cwd=work)
    scenes([str(program)], {}, work)


# As an engine would run it: a mount namespace of its own, the root read-only, the image's user.
CONTAINER = """
set -e
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount -t tmpfs -o uid=65532,gid=65532,mode=0700 state "$ROOT/var/lib/toolmark"
if (: >"$ROOT/etc/written") 2>/dev/null; then echo "the root can be written" >&2; exit 1; fi
exec chroot --userspec=65532:65532 "$ROOT" "$@"
"""


def test_container(release: Release, path: Path, work: Path) -> None:
    """The image's layers and configuration are taken from the archive that is shipped."""
    root = work / "root"
    root.mkdir()
    with tarfile.open(path) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        configuration = json.load(archive.extractfile(manifest["Config"]))["config"]
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(layer)) as files:
                files.extractall(root, filter="tar")
    if configuration["User"] != "65532:65532" or configuration["WorkingDir"] != "/var/lib/toolmark":
        raise Failed(f"the image's configuration is {configuration}")
    owner = (root / "var/lib/toolmark").stat()
    if (owner.st_uid, owner.st_gid) != (65532, 65532):
        raise Failed("the state directory isn't the user's")
    if list(root.glob("**/sh")):
        raise Failed("there is a shell in the image")
    environment = dict(variable.split("=", 1) for variable in configuration["Env"]) | {"ROOT": str(root)}
    inside = ["unshare", "--mount", "sh", "-c", CONTAINER, "sh", *configuration["Entrypoint"]]
    said = subprocess.run([*inside, "--version"], env=environment | {"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    if said.stdout.strip() != f"toolmark {release.version}":
        raise Failed(f"it says `{said.stdout}{said.stderr}`")
    # The ledger's place is absolute in the settings: chroot begins in `/`, an engine in the image's working directory.
    arguments = configuration["Cmd"]
    checked = configuration["Healthcheck"]["Test"]
    if checked[:2] != ["CMD", configuration["Entrypoint"][0]]:
        raise Failed(f"the image's health check is {checked}")
    scenes([*inside, *arguments[1:]], environment, None, [*inside, *checked[2:]])
    print("    run by chroot with the image's user, variables and arguments on a read-only root: no engine was there to do it")


def test_formula(release: Release, path: Path, _: Path) -> None:
    """Ruby reads it where there is Ruby; its checksums are the tarballs'."""
    text = path.read_text()
    tarballs = [tarball for tarball in release.into.glob("*.tar.gz") if tarball.name in text]
    if not tarballs or any(sha256(tarball) not in text for tarball in tarballs) or "@" in text:
        raise Failed(text)
    if shutil.which("ruby"):
        run("ruby", "-c", path)
    else:
        print("    there is no Ruby: the formula's syntax wasn't looked at")


def test_sbom(_: Release, path: Path, __: Path) -> None:
    document = json.loads(path.read_text())
    references = {component["bom-ref"] for component in document["components"]} | {document["metadata"]["component"]["bom-ref"]}
    named = {name for entry in document["dependencies"] for name in [entry["ref"], *entry["dependsOn"]]}
    if named != references or len(references) < 50 or "pkg:cargo/rustls@" not in " ".join(references):
        raise Failed(f"crates and dependencies differ: {sorted(named ^ references)}")


def test_licences(_: Release, path: Path, __: Path) -> None:
    text = path.read_text()
    if text.count("MIT") < 50 or "Apache License" not in text or "ISC" not in text:
        raise Failed("licences are missing")


def test_symbols(_: Release, path: Path, __: Path) -> None:
    """They name functions of this project."""
    if not any("toolmark" in line for line in run("nm", "--demangle", path).splitlines()):
        raise Failed("no function of toolmark is in it")


def test_checksums(release: Release, path: Path, _: Path) -> None:
    run("sha256sum", "--check", "--strict", path, cwd=release.into)


TESTS = {
    "tarball": test_tarball,
    "deb": test_deb,
    "wheel": test_wheel,
    "npm": test_npm,
    "container": test_container,
    "formula": test_formula,
    "sbom": test_sbom,
    "licences": test_licences,
    "symbols": test_symbols,
    "checksums": test_checksums,
}
# What only a machine of the package's processor installs.
INSTALLED = ("deb", "wheel", "npm", "container")


def test(release: Release, made: dict[str, Path]) -> int:
    """Tests each package that was made; the exit code. Of another processor's packages those that can't be installed here are left out."""
    passed = failed = 0
    for kind, path in made.items():
        if release.foreign and kind in INSTALLED:
            print(f"  {kind}: NOT TESTED: only {release.processor} can install it; its binary is the tarball's, which qemu runs")
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"toolmark-{kind}-") as work:
            try:
                TESTS[kind](release, path, Path(work))
            except (Failed, OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
                failed += 1
                print(f"  {kind}: FAILED: {error}")
                continue
        passed += 1
        print(f"  {kind}: works ({time.monotonic() - started:.0f} s)")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
