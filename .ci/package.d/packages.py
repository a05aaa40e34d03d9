"""The packages, made of one binary: the same bytes are in each.

The .deb, the wheel and the npm package are written here and not by cargo-deb, maturin and napi: those build a binary of their own,
and all packages have the same bytes of one build of `.ci/dist`.
"""

import base64
import csv
import datetime
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
import types
import zipfile
from pathlib import Path

import inventory

REPOSITORY = inventory.REPOSITORY
HERE = Path(__file__).resolve().parent
MANIFEST = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())
CARGO = MANIFEST["package"] | MANIFEST["workspace"]["package"]
HOMEPAGE = CARGO.get("repository", "https://example.invalid/toolmark")
# Of the image's layers as a registry stores them and an engine pulls them: compressed.
IMAGE_BYTES_MAX = 30_000_000
# By rustc's name of the processor: Debian's, npm's, Homebrew's block.
PROCESSORS = {"x86_64": ("amd64", "x64", "on_intel"), "aarch64": ("arm64", "arm64", "on_arm")}


class Failed(Exception):
    """A package that can't be made here, and why."""


def run(*command, **options) -> str:
    """Runs a command and returns its output; its error output is shown only if it fails."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    except FileNotFoundError:
        raise Failed(f"`{command[0]}` isn't installed") from None
    if done.returncode:
        raise Failed(f"`{' '.join(map(str, command))}` failed ({done.returncode}):\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Release:
    """The binary that is packaged, what is known of it, and the directory that the packages go to."""

    def __init__(self, binary: Path | None, target: str | None, into: Path):
        self.version = CARGO["version"]
        self.host = re.search(r"host: (\S+)", run("rustc", "-vV"))[1]
        self.target = target or self.host
        self.processor = self.target.split("-")[0]
        self.foreign = self.processor != platform.machine()
        if self.processor not in PROCESSORS or "linux" not in self.target:
            raise Failed(f"packages are made for Linux on {' and '.join(PROCESSORS)}, not for {self.target}")
        self.into = into.resolve()
        self.into.mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp(prefix="toolmark-package-"))
        # What is packed has this time, so that the same binary gives the same package.
        self.time = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", cwd=REPOSITORY))
        self.binary = self.work / "toolmark"
        binary = binary or self.build()
        # Beside a binary of `.ci/dist`.
        self.symbols = binary.with_name("toolmark.debug")
        if self.symbols.exists():
            # It is stripped, and Debian's strip doesn't read what BOLT made.
            shutil.copyfile(binary, self.binary)
        else:
            run(self.tool("strip", f"{self.processor}-linux-gnu-strip", "llvm-strip"), "-o", self.binary, binary)
        self.binary.chmod(0o755)
        content = self.binary.read_bytes()
        if b"\x7fELF" != content[:4]:
            raise Failed(f"`{binary}` is no binary for Linux")
        symbols = {tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)}
        interpreter = re.search(rb"/lib(?:64)?/ld-[\w.-]+", content)
        self.dynamic = interpreter is not None
        self.glibc = max(symbols, default=(2, 17)) if self.dynamic else None
        self.libc = "gnu" if self.dynamic else ("musl" if "musl" in self.target else "gnu-static")
        self.generated = self.work / "generated"
        self.generate()

    def tool(self, own: str, *foreign: str) -> str:
        """This machine's program of that name; for another processor the first of these that is there."""
        if not self.foreign:
            return own
        if found := next(filter(None, map(shutil.which, foreign)), None):
            return found
        raise Failed(f"for {self.processor} there must be one of: {', '.join(foreign)} (apt-get install binutils-{self.processor}-linux-gnu qemu-user-static)")

    def build(self) -> Path:
        """The binary that is shipped, as `.ci/dist` builds it."""
        if self.target != self.host:
            installed = run("rustc", "--print", "target-libdir", "--target", self.target).strip()
            if not Path(installed).is_dir():
                raise Failed(f"the standard library for {self.target} isn't installed: rustup target add {self.target}")
        built = REPOSITORY / "target" / self.target / "dist"
        if subprocess.run([REPOSITORY / ".ci/dist", "--target", self.target, "--into", built], cwd=REPOSITORY).returncode:
            raise Failed("`.ci/dist` failed: what it needs is said above")
        return built / "toolmark"

    def generate(self) -> None:
        """Man pages and completions. Those of another processor's binary are generated by one of this machine."""
        if self.foreign:
            own = REPOSITORY / "target/debug/toolmark"
            run("cargo", "build", "--quiet", "--locked", cwd=REPOSITORY)
        else:
            own = self.binary
        run(own, "generate", self.generated)

    def lay_out(self, root: Path, prefix: str, documents: str) -> None:
        """The files that packages of a system have in common, below a root."""
        share = root / prefix / "share"
        copy(self.binary, root / prefix / "bin/toolmark", 0o755)
        for page in sorted((self.generated / "man").iterdir()):
            copy(page, share / "man/man1" / page.name)
        completions = self.generated / "completions"
        copy(completions / "toolmark.bash", share / "bash-completion/completions/toolmark")
        copy(completions / "_toolmark", share / "zsh/site-functions/_toolmark")
        copy(completions / "toolmark.fish", share / "fish/vendor_completions.d/toolmark.fish")
        for policy in sorted((REPOSITORY / "policies").glob("*.toml")):
            copy(policy, share / "toolmark/policies" / policy.name)
        about = root / documents
        for name in ("README.md", "CHANGELOG.md", "LICENSE"):
            copy(REPOSITORY / name, about / name)
        write(about / "LICENCES.txt", inventory.licences(self.target)[0])
        for example in sorted((REPOSITORY / "examples").glob("*.toml")):
            copy(example, about / "examples" / example.name)


def copy(source: Path, destination: Path, mode: int = 0o644) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, destination)
    destination.chmod(mode)


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def tar(path: Path, root: Path, top: str, time: int) -> None:
    """A .tar.gz of a directory: sorted, nobody's, of one time."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = time
        return entry

    with gzip.GzipFile(path, "wb", compresslevel=9, mtime=time) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for entry in [root, *sorted(root.rglob("*"))]:
            archive.add(entry, f"{top}/{entry.relative_to(root)}".removesuffix("/."), recursive=False, filter=plain)


def unit(executable: str) -> str:
    """The systemd unit of examples/, for a binary that a package brings."""
    text = (REPOSITORY / "examples/toolmark.service").read_text()
    before, started = text.split("\n[Unit]", 1)
    assert "/usr/local/bin/toolmark" in started and before.startswith("#")
    return "# Settings: /etc/toolmark/toolmark.toml; secrets: /etc/toolmark/environment.\n[Unit]" + started.replace(
        "/usr/local/bin/toolmark", executable
    )


def make_tarball(release: Release) -> Path:
    """bin/ and share/, to be unpacked below any prefix."""
    name = f"toolmark-{release.version}-{release.processor}-linux-{release.libc}"
    root = release.work / "tarball"
    release.lay_out(root, "", "share/doc/toolmark")
    write(root / "share/toolmark/toolmark.service", unit("/usr/local/bin/toolmark"))
    path = release.into / f"{name}.tar.gz"
    tar(path, root, name, release.time)
    return path


CONTROL = """\
Package: toolmark
Version: {version}
Architecture: {architecture}
Maintainer: the toolmark authors <toolmark@example.invalid>
Section: net
Priority: optional
Depends: {depends}
Recommends: ca-certificates
Installed-Size: {size}
Description: reverse proxy that enforces tool-call integrity
 toolmark stands between an agent and an OpenAI-compatible API, checks every
 tool call against the tool's JSON Schema and every answer against the results
 of the tools. Start it with: systemctl enable --now toolmark
"""

# The service is enabled by the administrator, once the settings name an upstream. An upgrade starts it again if it was running.
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart toolmark.service || true
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now toolmark.service || true
fi
"""
# The ledger is a record: only a purge takes it away.
POSTRM = """\
#!/bin/sh
set -e
if [ "$1" = purge ]; then
    rm -rf /var/lib/private/toolmark
    if [ -L /var/lib/toolmark ] || [ -d /var/lib/toolmark ]; then rm -rf /var/lib/toolmark; fi
    rm -f /etc/toolmark/environment
    rmdir --ignore-fail-on-non-empty /etc/toolmark 2>/dev/null || true
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"""


def make_deb(release: Release) -> Path:
    """Binary, policies, settings as a conffile, systemd unit, man pages, completions."""
    root = release.work / "deb"
    release.lay_out(root, "usr", "usr/share/doc/toolmark")
    for page in (root / "usr/share/man/man1").iterdir():
        pack(page, release.time)
    # Debian's place for zsh, and its name for the licence.
    completions = root / "usr/share/zsh"
    (completions / "site-functions").rename(completions / "vendor-completions")
    documents = root / "usr/share/doc/toolmark"
    (documents / "LICENSE").rename(documents / "copyright")
    pack((documents / "CHANGELOG.md").rename(documents / "changelog"), release.time)
    pack(documents / "LICENCES.txt", release.time)
    write(root / "usr/lib/systemd/system/toolmark.service", unit("/usr/bin/toolmark"))
    copy(HERE / "toolmark.toml", root / "etc/toolmark/toolmark.toml")
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    architecture = PROCESSORS[release.processor][0]
    depends = f"libc6 (>= {release.glibc[0]}.{release.glibc[1]}), libgcc-s1" if release.glibc else ""
    control = CONTROL.format(
        version=release.version,
        architecture=architecture,
        depends=depends,
        size=sum(path.stat().st_size for path in files) // 1024,
    )
    write(root / "DEBIAN/control", control.replace("Depends: \n", ""))
    write(root / "DEBIAN/conffiles", "/etc/toolmark/toolmark.toml\n")
    sums = [f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files]
    write(root / "DEBIAN/md5sums", "".join(sums))
    for name, script in (("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)):
        write(root / "DEBIAN" / name, script, 0o755)
    for directory in [root, *root.rglob("*")]:
        if directory.is_dir():
            directory.chmod(0o755)
    path = release.into / f"toolmark_{release.version}_{architecture}.deb"
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(release.time)}
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, path, env=environment)
    return path


def pack(path: Path, time: int) -> None:
    """Replaces a file by its .gz."""
    with gzip.GzipFile(f"{path}.gz", "wb", compresslevel=9, mtime=time) as packed:
        packed.write(path.read_bytes())
    path.unlink()


def make_wheel(release: Release) -> Path:
    """The binary as a script, as maturin's `bin` bindings lay it out (PyPA: binary distribution format)."""
    if release.glibc:
        tag = f"py3-none-manylinux_{release.glibc[0]}_{release.glibc[1]}_{release.processor}"
    else:
        # A static binary runs on either.
        tag = f"py3-none-manylinux_2_17_{release.processor}.musllinux_1_1_{release.processor}"
    about, data = f"toolmark-{release.version}.dist-info", f"toolmark-{release.version}.data"
    metadata = (
        f"Metadata-Version: 2.4\nName: toolmark\nVersion: {release.version}\nSummary: {CARGO['description']}\n"
        "License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
    ) + (REPOSITORY / "README.md").read_text()
    tags = [f"py3-none-{part}" for part in tag.removeprefix("py3-none-").split(".")]
    wheel = "Wheel-Version: 1.0\nGenerator: toolmark .ci/package\nRoot-Is-Purelib: false\n" + "".join(f"Tag: {one}\n" for one in tags)
    contents = {
        f"{data}/scripts/toolmark": release.binary.read_bytes(),
        f"{about}/METADATA": metadata.encode(),
        f"{about}/WHEEL": wheel.encode(),
        f"{about}/licenses/LICENSE": (REPOSITORY / "LICENSE").read_bytes(),
        f"{about}/licenses/LICENCES.txt": inventory.licences(release.target)[0].encode(),
    }
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(content)])
    rows.writerow([f"{about}/RECORD", "", ""])
    contents[f"{about}/RECORD"] = record.getvalue().encode()
    path = release.into / f"toolmark-{release.version}-{tag}.whl"
    when = datetime.datetime.fromtimestamp(release.time, datetime.UTC).timetuple()[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, content)
    return path


def make_npm(release: Release) -> Path:
    """The binary as the package's command. One package for one kind of machine: npm refuses it elsewhere."""
    root = release.work / "npm"
    processor = PROCESSORS[release.processor][1]
    package = {
        "name": "toolmark",
        "version": release.version,
        "description": CARGO["description"],
        "license": "Apache-2.0",
        "bin": {"toolmark": "bin/toolmark"},
        "files": ["bin", "policies", "LICENCES.txt"],
        "os": ["linux"],
        "cpu": [processor],
        **({"libc": ["glibc"]} if release.dynamic else {}),
    }
    write(root / "package.json", json.dumps(package, indent=2) + "\n")
    copy(release.binary, root / "bin/toolmark", 0o755)
    for name in ("README.md", "LICENSE"):
        copy(REPOSITORY / name, root / name)
    for policy in sorted((REPOSITORY / "policies").glob("*.toml")):
        copy(policy, root / "policies" / policy.name)
    write(root / "LICENCES.txt", inventory.licences(release.target)[0])
    path = release.into / f"toolmark-{release.version}-linux-{processor}.tgz"
    # npm's tarballs have everything below `package/`.
    tar(path, root, "package", release.time)
    return path


def make_container(release: Release) -> Path:
    """An image from scratch, as an archive that `podman load` and `docker load` take."""
    context = release.work / "container"
    root = context / "root"
    copy(release.binary, root / "usr/bin/toolmark", 0o755)
    if release.dynamic:
        lay_out_libraries(release.binary, root)
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if not certificates.exists():
        raise Failed("the certificates of public authorities aren't installed: apt-get install ca-certificates")
    copy(certificates, root / "etc/ssl/certs/ca-certificates.crt")
    write(root / "etc/passwd", "root:x:0:0::/:/\ntoolmark:x:65532:65532::/var/lib/toolmark:/\n")
    write(root / "etc/group", "root:x:0:\ntoolmark:x:65532:\n")
    write(root / "etc/nsswitch.conf", "hosts: files dns\n")
    copy(HERE / "toolmark.toml", root / "etc/toolmark/toolmark.toml")
    for policy in sorted((REPOSITORY / "policies").glob("*.toml")):
        copy(policy, root / "usr/share/toolmark/policies" / policy.name)
    copy(REPOSITORY / "LICENSE", root / "usr/share/doc/toolmark/LICENSE")
    write(root / "usr/share/doc/toolmark/LICENCES.txt", inventory.licences(release.target)[0])
    (context / "state").mkdir()
    unpacked = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    tar(context / "layer.tar.gz", root, "", release.time)
    pulled = (context / "layer.tar.gz").stat().st_size
    (context / "layer.tar.gz").unlink()
    if pulled > IMAGE_BYTES_MAX:
        raise Failed(f"the image would have {pulled / 1e6:.1f} MB, and {IMAGE_BYTES_MAX / 1e6:.0f} are allowed: is the binary a debug build?")
    print(f"    {pulled / 1e6:.1f} MB to pull, {unpacked / 1e6:.1f} MB unpacked")
    path = release.into / f"toolmark-{release.version}-{PROCESSORS[release.processor][0]}.image.tar"
    path.unlink(missing_ok=True)
    # Neither needs a daemon nor rights beyond a chroot; `vfs` works on any file system.
    storage = ["--root", release.work / "storage", "--runroot", release.work / "run", "--storage-driver", "vfs"]
    name = f"localhost/toolmark:{release.version}"
    # Docker's format: OCI's has no health check.
    build = ["build", "--format", "docker", "--isolation", "chroot", "--timestamp", str(release.time), "--tag", name]
    run("buildah", *storage, *build, "--file", HERE / "Containerfile", context)
    run("buildah", *storage, "push", name, f"docker-archive:{path}:{name}")
    return path


def lay_out_libraries(binary: Path, root: Path) -> None:
    """The shared libraries that a dynamic binary needs, where its loader looks for them."""
    needed = set(re.findall(r"(/\S+) \(0x", run("ldd", binary)))
    for library in sorted(needed):
        copy(Path(library).resolve(), root / library.lstrip("/"), 0o755)


def make_formula(release: Release) -> Path:
    """The Homebrew formula, for the tarballs that are in the directory."""
    blocks = []
    for processor, (_, _, block) in PROCESSORS.items():
        found = sorted(release.into.glob(f"toolmark-{release.version}-{processor}-linux-*.tar.gz"))
        if not found:
            continue
        # A static one first: Homebrew's own C library may be older than the binary's.
        tarball = min(found, key=lambda path: ("musl" not in path.name, "static" not in path.name))
        url = f"{HOMEPAGE}/releases/download/v{release.version}/{tarball.name}"
        blocks.append(f'    {block} do\n      url "{url}"\n      sha256 "{sha256(tarball)}"\n    end\n')
    if not blocks:
        raise Failed("there is no tarball to point at: .ci/package tarball formula")
    platforms = "  on_linux do\n" + "".join(blocks) + "  end\n"
    text = (HERE / "formula.rb").read_text()
    for word, value in (("HOMEPAGE", HOMEPAGE), ("VERSION", release.version), ("PLATFORMS", platforms)):
        text = text.replace(f"@{word}@", value)
    path = release.into / "toolmark.rb"
    path.write_text(text)
    return path


def make_sbom(release: Release) -> Path:
    """What the binary is made of, as CycloneDX."""
    path = release.into / f"toolmark-{release.version}-{release.target}.cdx.json"
    when = datetime.datetime.fromtimestamp(release.time, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    path.write_text(inventory.sbom(release.target, release.version, sha256(release.binary), when))
    return path


def make_licences(release: Release) -> Path:
    """The licences of all crates."""
    path = release.into / f"toolmark-{release.version}-{release.target}.licences.txt"
    text, without = inventory.licences(release.target)
    path.write_text(text)
    if without:
        print(f"    {len(without)} crates bring no text of their licence; the file names theirs")
    return path


def make_symbols(release: Release) -> Path:
    """The debug symbols, for who reads a core dump or a profile."""
    if not release.symbols.exists():
        raise Failed("there are no symbols beside the binary: only `.ci/dist` leaves them")
    path = release.into / f"toolmark-{release.version}-{release.target}.debug"
    copy(release.symbols, path)
    return path


def make_checksums(release: Release) -> Path:
    """SHA-256 of every package that is in the directory."""
    path = release.into / "SHA256SUMS"
    files = [file for file in sorted(release.into.iterdir()) if file.is_file() and file != path]
    path.write_text("".join(f"{sha256(file)}  {file.name}\n" for file in files))
    return path


# In this order: the formula needs tarballs, the checksums all.
MAKERS = {
    "tarball": make_tarball,
    "deb": make_deb,
    "wheel": make_wheel,
    "npm": make_npm,
    "container": make_container,
    "formula": make_formula,
    "sbom": make_sbom,
    "licences": make_licences,
    "symbols": make_symbols,
    "checksums": make_checksums,
}


def make(release: Release, kinds: list[str]) -> dict[str, Path]:
    """Makes the packages. What can't be made here is an error if it was asked for by name, else a line."""
    libc = f"glibc {release.glibc[0]}.{release.glibc[1]} or later" if release.glibc else "static"
    print(f"toolmark {release.version} for {release.target} ({libc}), {release.binary.stat().st_size / 1e6:.1f} MB stripped")
    made = {}
    for kind, maker in MAKERS.items():
        if kinds and kind not in kinds:
            continue
        try:
            made[kind] = path = maker(release)
        except Failed as error:
            if kinds:
                raise
            print(f"  {kind}: NOT MADE: {error}")
            continue
        print(f"  {kind}: {path.name}, {path.stat().st_size / 1e6:.2f} MB")
    return made


def collect(into: Path) -> None:
    """Makes the formula and the checksums of packages that came from several machines."""
    release = types.SimpleNamespace(version=CARGO["version"], into=into.resolve())
    for maker in (make_formula, make_checksums):
        print(f"  {maker(release).name}")
