#!/usr/bin/env python3
"""Writes the schemas of core kinds from the published OpenAPI of each supported minor version of Kubernetes.

Reads modules through `go mod download` (`k8s.io/kubernetes` for `api/openapi-spec/swagger.json` and `pkg/features`,
`k8s.io/api` for the comments that name feature gates) and writes, into rules/schemas/core:

- types.json: each type that a checked kind reaches, one per line, with the fields of all versions;
- fields.tsv: the fields that are not in all versions, or whose feature gate is off by default in one of them;
- gates.tsv: the feature gates of these fields;

and rules/src/kind/api_minors.tsv: the API versions of kinds that not every minor version serves, or that are off by default.

To run it: python3 tools/bump/kubernetes.py [VERSION], such as 1.38.0, which is added to kubernetes.tsv in place of another patch of
its minor version.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "rules/schemas/core"
API_MINORS = ROOT / "rules/src/kind/api_minors.tsv"

# One patch version of each minor version, oldest first.
LIST = pathlib.Path(__file__).with_name("kubernetes.tsv")


def read_versions(more=()):
    """The patch version that is read for each minor version, with those in `more`."""
    lines = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]
    return dict(sorted({line.rsplit(".", 1)[0]: line for line in [*lines, *more]}.items(), key=lambda pair: order(pair[0])))


def order(minor):
    return tuple(int(part) for part in minor.split("."))


VERSIONS = read_versions(sys.argv[1:] if __name__ == "__main__" else ())
MINORS = list(VERSIONS)

# The kinds whose objects are checked, by group and version as in the names of the types.
KINDS = {
    "core.v1": ["Pod", "Service"],
    "apps.v1": ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"],
    "batch.v1": ["Job", "CronJob"],
    "autoscaling.v1": ["HorizontalPodAutoscaler"],
    "autoscaling.v2": ["HorizontalPodAutoscaler"],
    "policy.v1": ["PodDisruptionBudget"],
    "resource.v1": ["ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule"],
    "resource.v1beta2": ["ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule"],
    "resource.v1beta1": ["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"],
    "admissionregistration.v1": ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"],
}
GROUPS = {"core": "", "resource": "resource.k8s.io/", "admissionregistration": "admissionregistration.k8s.io/"}
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# Types that are a number or a string in JSON; the specification says string.
INT_OR_STRING = ["io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"]

# Gates that decide about values of fields that all versions have.
GATES_OF_VALUES = {"HPAScaleToZero", "RelaxedServiceNameValidation"}


def module(path, version):
    """The folder of a module's source, downloaded if necessary."""
    env = {**os.environ, "GOTOOLCHAIN": os.environ.get("GOTOOLCHAIN", "go1.26.10+auto"), "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{path}@v{version}"],
        check=True, capture_output=True, text=True, env=env, cwd=tempfile.gettempdir(),
    )
    return pathlib.Path(json.loads(done.stdout)["Dir"])


def stripped(value, is_properties=False):
    """A schema without descriptions, defaults and extensions, its references as names of types."""
    if isinstance(value, list):
        return [stripped(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, inner in value.items():
        if not is_properties and (key in ("description", "default") or key.startswith("x-kubernetes-")):
            continue
        out[key] = inner.removeprefix("#/definitions/") if key == "$ref" else stripped(inner, key == "properties")
    return out


def definition(types, name):
    """The schema of a type as gpulint uses it."""
    if name in INT_OR_STRING:
        return {"x-kubernetes-int-or-string": True}
    schema = stripped(types[name])
    properties = types[name].get("properties", {})
    if "apiVersion" in properties and "metadata" in properties:
        # Every object has a name.
        schema["required"] = sorted({*schema.get("required", []), "metadata"})
    return schema


def references(value):
    """The names of the types that a schema refers to."""
    if isinstance(value, list):
        return [name for one in value for name in references(one)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [name for inner in value.values() for name in references(inner)]


def reached(types, roots):
    """The schemas of the roots and of all types that they refer to. Users write no status."""
    out, queue = {}, list(roots)
    while queue:
        name = queue.pop()
        if name in out or name not in types:
            continue
        out[name] = definition(types, name)
        if name in roots:
            out[name]["properties"].pop("status", None)
        queue.extend(references(out[name]))
    return out


def union(by_minor):
    """Each type with the fields of all versions; where they differ otherwise, a later version decides."""
    out = {}
    for minor in MINORS:
        for name, schema in by_minor[minor].items():
            known = out.setdefault(name, {})
            fields = {**known.get("properties", {}), **schema.get("properties", {})}
            properties = {"properties": dict(sorted(fields.items()))} if fields else {}
            out[name] = dict(sorted({**schema, **properties}.items()))
    return out


def gates_of_fields(source):
    """The feature gates of fields, by type and field, from comments `+featureGate=` in the Go types."""
    out = {}
    for path in sorted(source.glob("*/*/types.go")):
        group, version = path.parts[-3], path.parts[-2]
        name, pending = None, []
        for line in path.read_text().splitlines():
            if opened := re.match(r"type (\w+) struct \{", line):
                name, pending = f"io.k8s.api.{group}.{version}.{opened[1]}", []
            elif gate := re.match(r"\s*//\s*\+featureGate=(\S+)", line):
                pending += gate[1].split(",")
            elif tag := re.search(r'json:"(\w+)[,"]', line):
                if pending and name:
                    out[name, tag[1]] = pending
                pending = []
            elif not line.strip().startswith("//"):
                pending = []
    return out


def gates(source):
    """The history of each feature gate: [(minor, stage, whether it is on by default)]."""
    text = (source / "pkg/features/kube_features.go").read_text()
    out = {}
    for block in re.finditer(r"^\t(?:\w+\.)?(\w+): \{\n(.*?)^\t\},", text, re.M | re.S):
        rows = re.findall(r'MustParse\("([\d.]+)"\), Default: (true|false), PreRelease: (?:featuregate\.)?(\w+)', block[2])
        if rows:
            out[block[1]] = [(minor, stage.lower(), default == "true") for minor, default, stage in rows]
    return out


def is_on(history, minor):
    """Whether a gate is on by default in a version."""
    past = [default for since, _, default in history if order(since) <= order(minor)]
    return bool(past) and past[-1]


def served(swagger):
    """The API versions of the kinds that a server with all its APIs creates objects of: {(group/version, kind)}."""
    out = set()
    for path, methods in swagger["paths"].items():
        of = methods.get("post", {}).get("x-kubernetes-group-version-kind")
        # Other paths are those of subresources.
        if of and re.fullmatch(r"/apis?/([^/]+/)?v[^/]+/(namespaces/\{namespace\}/)?[a-z]+", path):
            out.add((f"{of['group']}/{of['version']}".lstrip("/"), of["kind"]))
    return out


def api_minors(by_minor, origin):
    """The lines about API versions that came, went or are off by default, which since 1.24 all are that are no stable ones."""
    lines = [
        f"# {origin}",
        "#",
        "# API versions of kinds that not all of these versions serve, or that are off by default: API version, kind, the first and",
        "# the last version that has it (`-`: all), whether it is on by default.",
    ]
    for api_version, kind in sorted(set().union(*by_minor.values())):
        having = [minor for minor in MINORS if (api_version, kind) in by_minor[minor]]
        since = "-" if having[0] == MINORS[0] else having[0]
        until = "-" if having[-1] == MINORS[-1] else having[-1]
        default = "off" if re.search(r"v\d+(alpha|beta)\d+$", api_version) else "on"
        if (since, until, default) != ("-", "-", "on"):
            lines.append("\t".join([api_version, kind, since, until, default]))
    return lines


def main():
    sources = {minor: module("k8s.io/kubernetes", version) for minor, version in VERSIONS.items()}
    newest = MINORS[-1]
    api_version = "0." + VERSIONS[newest].split(".", 1)[1]
    roots = {f"io.k8s.api.{group}.{kind}": (group, kind) for group, kinds in KINDS.items() for kind in kinds}
    by_minor, apis = {}, {}
    for minor, source in sources.items():
        swagger = json.loads((source / "api/openapi-spec/swagger.json").read_text())
        by_minor[minor] = reached(swagger["definitions"], roots)
        apis[minor] = served(swagger)
    types = union(by_minor)
    field_gates = gates_of_fields(module("k8s.io/api", api_version))
    known_gates = gates(sources[newest])

    today = datetime.date.today().isoformat()
    versions = ", ".join(f"v{version}" for version in VERSIONS.values())
    origin = f"Generated by tools/bump/kubernetes.py from k8s.io/kubernetes {versions} and k8s.io/api v{api_version} (Apache-2.0), {today}."
    API_MINORS.write_text("\n".join(api_minors(apis, origin)) + "\n")
    named = {}
    for name, (group, kind) in roots.items():
        group, version = group.split(".")
        named[f"{GROUPS.get(group, group + '/')}{version}/{kind}"] = name
    lines = ["{", json.dumps("//") + ":" + json.dumps(origin) + ",", f'"roots":{json.dumps(dict(sorted(named.items())), separators=(",", ":"))}']
    for name, schema in sorted(types.items()):
        lines[-1] += ","
        lines.append(f"{json.dumps(name)}:{json.dumps(schema, separators=(',', ':'))}")
    (OUT / "types.json").write_text("\n".join(lines + ["}"]) + "\n")

    rows, used = [], set(GATES_OF_VALUES)
    for name, schema in sorted(types.items()):
        there = [minor for minor in MINORS if name in by_minor[minor]]
        for field in schema.get("properties", {}):
            having = [minor for minor in there if field in by_minor[minor][name].get("properties", {})]
            # A field of a type that is new itself is reached through a field that is new.
            since = having[0] if having[0] != there[0] else MINORS[0]
            until = having[-1] if having[-1] != there[-1] else newest
            of_field = [gate for gate in field_gates.get((name, field), []) if gate in known_gates]
            off = [gate for gate in of_field if any(not is_on(known_gates[gate], minor) for minor in having)]
            if since == MINORS[0] and until == newest and not off:
                continue
            used.update(off)
            rows.append([
                name, field, "-" if since == MINORS[0] else since, "-" if until == newest else until,
                ",".join(off) or "-",
            ])
    head = [
        f"# {origin}",
        "#",
        "# Fields that are not in all of these versions, or whose feature gate is off by default in one of them: type, field, the",
        "# first and the last version that has it (`-`: all), and its feature gates. The API server drops the field while one of them",
        "# is off.",
    ]
    (OUT / "fields.tsv").write_text("\n".join(head + ["\t".join(row) for row in rows]) + "\n")
    head = [f"# {origin}", "#", "# Feature gates of the fields in fields.tsv, and some that decide about values: the versions in which stage or default changed."]
    for gate in sorted(used):
        history = " ".join(f"{minor}={stage}/{'on' if default else 'off'}" for minor, stage, default in known_gates[gate])
        head.append(f"{gate}\t{history}")
    (OUT / "gates.tsv").write_text("\n".join(head) + "\n")
    comments = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
    LIST.write_text("\n".join([*comments, *VERSIONS.values()]) + "\n")
    print(f"{len(types)} types, {len(rows)} fields that differ, {len(used)} gates")


if __name__ == "__main__":
    main()
