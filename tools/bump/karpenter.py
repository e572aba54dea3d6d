#!/usr/bin/env python3
"""Writes what differs between the minor versions of Karpenter, from the modules of each minor.

    tools/bump/karpenter.py                       writes minors.tsv and kubelet.tsv of rules/src/karpenter, and prints what changed
    tools/bump/karpenter.py --check               changes nothing; fails if a table or a schema is not that of the modules
    tools/bump/karpenter.py 1.16 1.16.0 1.16.0    adds a minor (core and provider module) to karpenter.tsv first

Reads the CRDs, the feature gates and the supported Kubernetes versions. `go mod download` gets the modules, so Go and
PyYAML are needed. After the table, the schemas in rules/schemas are compared with the CRDs of the newest minor.
"""
import difflib
import json
import os
import re
import subprocess
import sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TABLE = os.path.join(ROOT, "rules/src/karpenter/minors.tsv")
KUBELET = os.path.join(ROOT, "rules/src/karpenter/kubelet.tsv")
CORE, PROVIDER = "sigs.k8s.io/karpenter", "github.com/aws/karpenter-provider-aws"
KINDS = {"NodePool": "v1", "NodeClaim": "v1", "NodeOverlay": "v1alpha1", "EC2NodeClass": "v1", "CapacityBuffer": "v1beta1"}
# Facts that the schema of a field states in one word, and the name that the table has for each.
WORDS = {"pattern": "pattern", "format": "format", "minimum": "minimum", "maximum": "maximum", "minLength": "minLength",
         "maxLength": "maxLength", "minItems": "minItems", "maxItems": "maxItems", "maxProperties": "maxProperties",
         "x-kubernetes-list-type": "list"}


def rows(name):
    with open(os.path.join(HERE, name)) as file:
        return [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]


def number(minor):
    return int(minor.split(".")[1])


def module(path, version):
    """The folder of an unpacked module."""
    environment = {"GOTOOLCHAIN": "go1.26.10+auto", **os.environ, "GOFLAGS": "-mod=mod"}
    run = subprocess.run(["go", "mod", "download", "-json", f"{path}@v{version}"],
                         env=environment, cwd="/", capture_output=True, text=True)
    answer = json.loads(run.stdout or "{}")
    if "Dir" not in answer:
        sys.exit(f"{path}@v{version}: {answer.get('Error', run.stderr)}")
    return answer["Dir"]


def crds(folder):
    """The schema of `spec` by kind, of the version that gpulint reads."""
    out, below = {}, os.path.join(folder, "pkg/apis/crds")
    for name in sorted(os.listdir(below)):
        if not name.endswith(".yaml"):
            continue
        with open(os.path.join(below, name)) as file:
            crd = yaml.safe_load(file)
        kind = crd["spec"]["names"]["kind"]
        for version in crd["spec"]["versions"]:
            if KINDS.get(kind) == version["name"]:
                out[kind] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return out


def text_of(validation):
    """The message of a CEL rule, or the rule; the punctuation of messages changes without the rule."""
    return " ".join(re.sub(r"[`'\"]|\.$", "", validation.get("message", validation["rule"])).split())


def keys(rule):
    """The label keys of a rule that lists those which a domain allows."""
    found = re.search(r"\bin \[(.*?)\]", rule, re.S)
    return re.findall(r'"([^"]+/[^"]+)"', found.group(1)) if found and "endsWith" in rule else []


def facts(kind, node, path, out):
    """What a schema says of a field and of those below it, as (kind, path, fact, value)."""
    say = lambda fact, value="-": out.add((kind, path, fact, str(value)))
    say("field")
    for name, short in WORDS.items():
        if name in node:
            say(short, node[name])
    if "default" in node:
        say("default", json.dumps(node["default"], sort_keys=True))
    if node.get("x-kubernetes-preserve-unknown-fields"):
        say("open")
    for value in node.get("enum", []):
        say("enum", value)
    for value in node.get("required", []):
        say("required", value)
    for rule in node.get("x-kubernetes-validations", []):
        say("cel", text_of(rule))
        for key in keys(rule["rule"]):
            say("key", key)
    for name, child in node.get("properties", {}).items():
        facts(kind, child, f"{path}/{name}", out)
    for child in (node.get("items"), node.get("additionalProperties")):
        if isinstance(child, dict):
            facts(kind, child, f"{path}/*", out)


def gates(folder, chart):
    """The feature gates that an options.go states, as {name: (stage, default)}. The chart knows the stages of old ones."""
    with open(os.path.join(folder, "pkg/operator/options/options.go")) as file:
        text = file.read()
    out = {}
    block = r'FeatureGate\{\s*Name:\s+"(\w+)",\s*Default:\s+(\w+),\s*Stage:\s+docs\.(\w+)'
    for name, default, stage in re.findall(block, text):
        out[name] = (stage.lower(), "on" if default == "true" else "off")
    line = re.search(r'"(?:AWS_)?FEATURE_GATES", "([^"]+)"', text)
    for gate in line.group(1).split(",") if line else []:
        name, default = gate.split("=")
        on = default == "true"
        _, stage = chart.get(name.lower(), (None, "beta" if on else "alpha"))
        out[name] = (stage, "on" if on else "off")
    return out


def stages(folder):
    """The names and stages of gates that the comments of the chart's values give, by name in lower case."""
    with open(os.path.join(folder, "charts/karpenter/values.yaml")) as file:
        found = re.findall(r"(\w+) is (ALPHA|BETA|GA)\b", file.read())
    return {name.lower(): (name, stage.lower()) for name, stage in found}


def kubernetes(folder):
    with open(os.path.join(folder, "pkg/providers/version/version.go")) as file:
        text = file.read()
    return [re.search(rf'{bound}K8sVersion\s*=\s*"([\d.]+)"', text).group(1) for bound in ("Min", "Max")]


class Read:
    """The facts of all minors."""

    def __init__(self, minors):
        self.minors = [minor for minor, _, _ in minors]
        self.core, self.provider, self.gates, self.kubernetes, self.chart = {}, {}, {}, {}, {}
        for minor, core, provider in minors:
            folders = [None if v == "-" else module(p, v) for p, v in ((CORE, core), (PROVIDER, provider))]
            self.one(minor, *folders)

    def one(self, minor, core, provider):
        chart = stages(provider) if provider else {}
        self.chart |= {low: name for low, (name, _) in chart.items()}
        if core:
            self.gates[minor] = {(name, "core"): state for name, state in gates(core, chart).items()}
        if provider:
            self.gates[minor] |= {(name, "aws"): state for name, state in gates(provider, chart).items()}
            self.kubernetes[minor] = kubernetes(provider)
        for folder, into in ((core, self.core), (provider, self.provider)):
            if folder:
                into[minor] = set()
                for kind, spec in crds(folder).items():
                    facts(kind, spec, "spec", into[minor])

    def of(self, minor, fact):
        """Whether a minor has a fact. None if its module cannot be downloaded, or states nothing of the kind."""
        by_provider = fact[0] == "EC2NodeClass" or "karpenter.k8s.aws" in fact[3]
        source = self.provider if by_provider or minor in self.provider else self.core
        return fact in source[minor] if minor in source else None


def since_and_until(read, fact, gaps):
    """The first minor of a fact and the last; None for the oldest and the newest."""
    known = [(minor, read.of(minor, fact)) for minor in read.minors if read.of(minor, fact) is not None]
    has = [minor for minor, there in known if there]
    first, last = has[0], has[-1]
    if any(not there for minor, there in known if number(first) < number(minor) < number(last)):
        sys.exit(f"{fact} comes and goes: the table has one range for each fact")
    if gap(gaps, fact) == "=":
        return None, None
    before = [minor for minor, there in known if number(minor) < number(first)]
    if before and number(before[-1]) + 1 != number(first):
        first = gap(gaps, fact) or sys.exit(f"add the first minor of {fact} to karpenter_gaps.tsv")
    after = [minor for minor, there in known if number(minor) > number(last)]
    if after and number(after[0]) != number(last) + 1:
        follower = gap(gaps, fact) or sys.exit(f"add the first minor without {fact} to karpenter_gaps.tsv")
        last = f"1.{number(follower) - 1}"
    return (first if before else None), (last if after else None)


def gap(gaps, fact):
    """The minor that karpenter_gaps.tsv gives for a fact, or for the field that brought it."""
    for row in gaps:
        if len(row) == 5 and all(have in (want, "*") for have, want in zip(row[:4], fact)):
            return row[4]
    kind, path, what, _ = fact
    above = path if what != "field" else path.rpartition("/")[0]
    return gap(gaps, (kind, above, "field", "-")) if above else None


def crd_lines(read, gaps):
    every = set().union(*read.core.values(), *read.provider.values())
    span = {fact: since_and_until(read, fact, gaps) for fact in every}
    for fact in sorted(every):
        kind, path, what, _ = fact
        holder = (kind, path if what != "field" else path.rpartition("/")[0], "field", "-")
        # What a new field brings with it is said by the field.
        if span[fact] not in ((None, None), span.get(holder)):
            yield "\t".join(["crd", *fact, *(bound or "-" for bound in span[fact])])


def gate_lines(read, gaps):
    for row in gaps:
        if row[0] == "gate":
            read.gates.setdefault(row[2], {})[(row[3], row[1])] = (row[4], row[5])
    names = sorted(set().union(*read.gates.values()), key=lambda gate: (gate[1] == "aws", gate[0]))
    for name in names:
        changes, before = [], None
        for minor in read.minors:
            state = read.gates.get(minor, {}).get(name)
            if state != before and (state or before):
                changes.append(f"{minor}={'/'.join(state) if state else 'gone'}")
            before = state
        yield "\t".join(["gate", name[1], name[0], read.chart[name[0].lower()], " ".join(changes)])


def kubernetes_lines(read, gaps):
    known = {**{row[1]: row[2:4] for row in gaps if row[0] == "kubernetes"}, **read.kubernetes}
    for minor in read.minors:
        yield "\t".join(["kubernetes", minor, *known[minor]])


def table(read, minors, gaps):
    core, provider = minors[-1][1:]
    head = ["# Generated by tools/bump/karpenter.py: do not edit.",
            f"# From the modules that tools/bump/karpenter.tsv names, up to {CORE} {core} and {PROVIDER} {provider}.",
            "#", "# crd, kind, path, fact, value, since, last minor (`-`: the oldest, the newest). Only what changed.",
            "# gate, list, name, name in the chart's values, minor=stage/default", "# kubernetes, minor, oldest and newest supported version"]
    lines = [*head, *crd_lines(read, gaps), *gate_lines(read, gaps), *kubernetes_lines(read, gaps)]
    return "".join(line + "\n" for line in lines)


def kubelet_fields(provider):
    """The fields of the kubelet's configuration that a provider module decodes, by the program in kubelet/."""
    with open(os.path.join(module(PROVIDER, provider), "go.mod")) as file:
        wanted = re.search(r"k8s.io/kubelet v([\d.]+)", file.read()).group(1)
    folder = os.path.join(HERE, "kubelet")
    with open(os.path.join(folder, "go.mod")) as file:
        have = re.search(r"k8s.io/kubelet v([\d.]+)", file.read()).group(1)
    environment = {"GOTOOLCHAIN": "go1.26.10+auto", **os.environ}
    if have != wanted:
        sys.exit(f"provider {provider} has k8s.io/kubelet {wanted}: cd tools/bump/kubelet, "
                 f"go get k8s.io/kubelet@v{wanted} k8s.io/apimachinery@v{wanted}, go mod tidy")
    run = subprocess.run(["go", "run", "."], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return (f"# The fields of KubeletConfiguration of k8s.io/kubelet {wanted}, which the AWS provider {provider} decodes `spec.kubelet` with.\n"
            "# Generated by tools/bump/karpenter.py from the program tools/bump/kubelet: do not edit. "
            "Path (`*`: each item or value), JSON type.\n" + run.stdout)


def changes(name, new):
    """The lines in which a file differs from its new text."""
    old = open(name).read() if os.path.exists(name) else ""
    return [line for line in difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
            if not line.startswith(("---", "+++", "@@"))]


def is_decided(fact):
    """Whether a schema may differ from the CRD here, for a reason that its comments give."""
    _, path, what, _ = fact
    return (what in ("cel", "key")  # named rules
            or path.startswith("spec/kubelet")  # keeps the fields of older minors
            or path == "spec/replicas" and what == "maximum"  # that of the scale subresource
            or path.endswith("/values") and what in ("pattern", "maxLength"))  # of a list, where they say nothing


def schema_differences(newest):
    """What the schemas of rules/schemas say otherwise than the CRDs of the newest minor."""
    groups = {"EC2NodeClass": "karpenter.k8s.aws"}
    for kind, version in KINDS.items():
        name = os.path.join(ROOT, "rules/schemas", groups.get(kind, "karpenter.sh"), version, kind + ".yaml")
        if not os.path.exists(name):
            continue
        with open(name) as file:
            mine = set()
            facts(kind, yaml.safe_load(file)["properties"]["spec"], "spec", mine)
        for fact in sorted(mine ^ {fact for fact in newest if fact[0] == kind}):
            if not is_decided(fact):
                yield f"{'only the schema' if fact in mine else 'only the CRD'}: {' '.join(fact)}"


def main(arguments):
    check = arguments == ["--check"]
    if len(arguments) == 3:
        path = os.path.join(HERE, "karpenter.tsv")
        with open(path) as file:
            # A patch release takes the place of the one before.
            kept = [line for line in file if line.split("\t")[0] != arguments[0]]
        with open(path, "w") as file:
            file.writelines([*kept, "\t".join(arguments) + "\n"])
    elif arguments and not check:
        sys.exit(__doc__)
    minors, gaps = rows("karpenter.tsv"), rows("karpenter_gaps.tsv")
    read = Read(minors)
    written = {TABLE: table(read, minors, gaps), KUBELET: kubelet_fields(minors[-1][2])}
    changed = {name: changes(name, text) for name, text in written.items()}
    differences = list(schema_differences(read.provider[minors[-1][0]]))
    for name, lines in changed.items():
        print("\n".join([os.path.basename(name) + ":", *(lines or ["no change"])]))
    print("\n".join(["schemas to be edited:", *differences] if differences else ["schemas: those of the CRDs"]))
    if check:
        sys.exit(1 if any(changed.values()) or differences else 0)
    for name, text in written.items():
        with open(name, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
