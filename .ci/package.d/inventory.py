"""What the binary is made of: the crates of a target's normal dependencies, as a CycloneDX SBOM and as one file of licences."""

import json
import subprocess
import uuid
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LICENCE_NAMES = ("license", "licence", "copying", "notice", "unlicense", "copyright")


def crates(target: str) -> list[dict]:
    """The crates that are linked or run for the target, without toolmark's own packages, sorted by name and version."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    metadata = json.loads(subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True).stdout)
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    own = set(metadata["workspace_members"])
    seen, to_visit = {root}, [root]
    while to_visit:
        for dependency in nodes[to_visit.pop()]["deps"]:
            # `None` is a normal dependency; what only builds or tests it isn't in the binary.
            if dependency["pkg"] not in seen and any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                seen.add(dependency["pkg"])
                to_visit.append(dependency["pkg"])
    found = [package for package in metadata["packages"] if package["id"] in seen - own]
    needs = {name: {d["pkg"] for d in nodes[name]["deps"] if d["pkg"] in seen} for name in seen}
    for package in found:
        package["needs"] = sorted(needs[package["id"]])
    root_needs = sorted(set().union(*(needs[package] for package in own & seen)) - own)
    found.sort(key=lambda package: (package["name"], package["version"]))
    found.append({"root": True, "needs": root_needs})
    return found


def purl(name: str, version: str) -> str:
    return f"pkg:cargo/{name}@{version}"


def checksums() -> dict[tuple[str, str], str]:
    import tomllib

    lock = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())
    return {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}


def sbom(target: str, version: str, digest: str, when: str) -> str:
    """The SBOM, CycloneDX 1.5. It is the same for the same binary: its serial number is made of the binary's digest."""
    *found, root = crates(target)
    sums = checksums()
    names = {package["id"]: purl(package["name"], package["version"]) for package in found}
    toolmark = purl("toolmark", version)
    components = []
    for package in found:
        component = {
            "type": "library",
            "bom-ref": names[package["id"]],
            "name": package["name"],
            "version": package["version"],
            "purl": names[package["id"]],
            "licenses": [{"expression": expression(package)}],
        }
        if (package["name"], package["version"]) in sums:
            component["hashes"] = [{"alg": "SHA-256", "content": sums[package["name"], package["version"]]}]
        components.append(component)
    dependencies = [{"ref": toolmark, "dependsOn": sorted({names[need] for need in root["needs"]})}]
    dependencies += [{"ref": names[p["id"]], "dependsOn": sorted({names[need] for need in p["needs"]})} for p in found]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, 'toolmark ' + digest)}",
        "version": 1,
        "metadata": {
            "timestamp": when,
            "component": {
                "type": "application",
                "bom-ref": toolmark,
                "name": "toolmark",
                "version": version,
                "purl": toolmark,
                "licenses": [{"expression": "Apache-2.0"}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "properties": [{"name": "rust:target", "value": target}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def expression(package: dict) -> str:
    """The crate's licences as an SPDX expression: older crates write `/` for `OR`."""
    return (package["license"] or "NOASSERTION").replace("/", " OR ")


def licences(target: str) -> tuple[str, list[str]]:
    """The licence texts of all crates, each text once, with the crates it is of; and the crates that bring no text."""
    *found, _ = crates(target)
    texts: dict[str, list[str]] = {}
    without = []
    for package in found:
        name = f"{package['name']} {package['version']}"
        directory = Path(package["manifest_path"]).parent
        files = [p for p in sorted(directory.iterdir()) if p.is_file() and p.name.lower().startswith(LICENCE_NAMES)]
        if package.get("license_file"):
            files.append((directory / package["license_file"]).resolve())
        own = {p.read_text(errors="replace").strip() for p in files if p.suffix not in (".rs", ".html")}
        for text in sorted(own):
            texts.setdefault(text, []).append(name)
        if not own:
            without.append(f"{name}: {expression(package)}")
    parts = ["Licences of the crates that toolmark's binary is made of. toolmark's own is in LICENSE.\n", "CRATES\n"]
    parts += [f"  {p['name']} {p['version']}: {expression(p)}" for p in found]
    parts.append("\nWITHOUT A TEXT OF THEIR OWN (the licence is the named one's usual text)\n")
    parts += [f"  {line}" for line in without]
    for text, owners in sorted(texts.items(), key=lambda item: item[1]):
        parts.append("\n" + "=" * 100 + "\n" + ", ".join(owners) + "\n" + "-" * 100 + "\n" + text)
    return "\n".join(parts) + "\n", without
