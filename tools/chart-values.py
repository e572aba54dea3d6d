#!/usr/bin/env python3
"""Writes rules/src/workload/chart_values.tsv: the values that the templates of charts read, by version.

Usage: tools/chart-values.py FOLDER

FOLDER has the git directories OWNER+NAME/repo of the repositories in CHARTS (Apache-2.0 or MIT). Only the names of values are
taken: of two levels, from `values.yaml` and from what the templates read. `KEY.*` is a value that a template reads as a
whole, so that any key below it may count. A chart whose templates read all values as a whole is left out.
"""

import datetime
import pathlib
import re
import subprocess
import sys

import yaml

TARGET = pathlib.Path(__file__).parent.parent / "rules/src/workload/chart_values.tsv"
# The chart, its repository, the folder in it, the tags of its releases, and the oldest version.
CHARTS = [
    ("dcgm-exporter", "NVIDIA+dcgm-exporter", "deployment", r"[\d.]+-([\d.]+)", (3, 0)),
    ("gpu-operator", "NVIDIA+gpu-operator", "deployments/gpu-operator", r"v([\d.]+)", (23, 9)),
    ("karpenter", "aws+karpenter-provider-aws", "charts/karpenter", r"v([\d.]+)", (0, 32)),
    ("keda", "kedacore+charts", "keda", r"v([\d.]+)", (2, 10)),
    ("kube-prometheus-stack", "prometheus-community+helm-charts", "charts/kube-prometheus-stack",
     r"kube-prometheus-stack-([\d.]+)", (55, 0)),
    ("kuberay-operator", "ray-project+kuberay", "helm-chart/kuberay-operator", r"v([\d.]+)", (1, 0)),
    ("nvidia-device-plugin", "NVIDIA+k8s-device-plugin", "deployments/helm/nvidia-device-plugin", r"v([\d.]+)", (0, 14)),
    ("ollama", "otwld+ollama-helm", "", r"ollama-([\d.]+)", (1, 0)),
    ("ray-cluster", "ray-project+kuberay", "helm-chart/ray-cluster", r"v([\d.]+)", (1, 0)),
]


def git(repository, *arguments):
    return subprocess.run(["git", "-C", repository, *arguments], capture_output=True).stdout.decode("utf-8", "replace")


def releases(repository, pattern, oldest):
    """The first and the last release of each minor version: pairs of the version and the tag."""
    found = {}
    for tag in git(repository, "tag").split():
        match = re.fullmatch(pattern, tag)
        if match:
            numbers = tuple(int(part) for part in match[1].split("."))
            if numbers[:2] >= oldest:
                found.setdefault(numbers[:2], []).append((numbers, tag))
    return {minor: [tags[0][1], tags[-1][1]] for minor, tags in ((m, sorted(t)) for m, t in sorted(found.items()))}


def keys_of(repository, tag, folder):
    """The keys, or None if the templates read all values as a whole."""
    above = folder and folder + "/"
    listing = git(repository, "ls-tree", "-r", "--name-only", tag, above + "templates/").split("\n")
    values = yaml.safe_load(git(repository, "show", f"{tag}:{above}values.yaml")) or {}
    chart = yaml.safe_load(git(repository, "show", f"{tag}:{above}Chart.yaml")) or {}
    keys, whole, parts = {"global", "global.*"}, set(), {}
    for dependency in chart.get("dependencies") or []:
        whole.add(dependency.get("alias") or dependency["name"])
        for condition in (dependency.get("condition") or "").split(","):
            steps = condition.strip().split(".")
            if len(steps) > 1:
                parts.setdefault(steps[0], set()).add(steps[1])
    for path in listing:
        if not path:
            continue
        text = re.sub(r"\{\{-?\s*/\*.*?\*/", "", git(repository, "show", f"{tag}:{path}"), flags=re.S)
        # `((.Values).ollama).mountPath` reads one value, also where the one above it is not set.
        text = re.sub(r"\(+\.Values\)(?:\.[A-Za-z0-9_-]+\)*)+", lambda match: re.sub("[()]", "", match[0]), text)
        for match in re.finditer(r"\.Values\b((?:\.[A-Za-z0-9_-]+)*)([^\n]{0,60})", text):
            steps = match[1].strip(".").split(".") if match[1] else []
            if not steps:
                literal = re.match(r'\s+"([A-Za-z0-9_-]+)"', match[2])
                if not literal:
                    return None
                whole.add(literal[1])
            elif len(steps) == 1:
                whole.add(steps[0])
            else:
                parts.setdefault(steps[0], set()).add(steps[1])
    for key, value in values.items():
        keys.add(key)
        if key not in parts or not isinstance(value, dict):
            whole.add(key)
        else:
            parts[key] |= {str(below) for below in value}
    keys |= set(parts) | whole | {key + ".*" for key in whole}
    for key, below in parts.items():
        if key not in whole:
            keys |= {f"{key}.{one}" for one in below}
    return keys


def main():
    rows = []
    for chart, name, folder, pattern, oldest in CHARTS:
        repository = f"{sys.argv[1]}/{name}/repo"
        by_minor = {}
        for minor, tags in releases(repository, pattern, oldest).items():
            found = [keys_of(repository, tag, folder) for tag in dict.fromkeys(tags)]
            by_minor[minor] = None if None in found else set().union(*found)
        minors = [minor for minor, keys in by_minor.items() if keys]
        print(chart, len(minors), "of", len(by_minor), [".".join(map(str, minor)) for minor in by_minor if minor not in minors])
        for key in sorted(set().union(*(by_minor[minor] for minor in minors))):
            ranges, start = [], None
            for at, minor in enumerate(minors):
                has = key in by_minor[minor]
                if has and start is None:
                    start = minor
                if start and (not has or at == len(minors) - 1):
                    ranges.append((start, minor if has else minors[at - 1]))
                    start = None
            rows += [(chart, key, ".".join(map(str, first)), ".".join(map(str, last))) for first, last in ranges]
    with open(TARGET, "w") as out:
        out.write("# Written by tools/chart-values.py: a chart, a value, and the first and the last minor version with it.\n")
        out.write(f"# Written on {datetime.date.today()} from the tags of {', '.join(dict.fromkeys(name.replace('+', '/') for _, name, *_ in CHARTS))}\n")
        out.write("# (Apache-2.0 or MIT), of each minor version the first and the last.\n")
        for row in rows:
            out.write("\t".join(row) + "\n")


main()
