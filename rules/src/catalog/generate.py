#!/usr/bin/env python3
"""Regenerates instances.csv, the catalogue of EC2 instance types, and prices.csv, what they cost.

    python3 generate.py                     fetch both sources into temporary folders, with pip and go
    python3 generate.py --package DIR       use an installed copy of moto (the folder that holds `moto/`)
    python3 generate.py --karpenter DIR     use an unpacked copy of Karpenter's Go module
    python3 generate.py --date YYYY-MM-DD   the day that EC2's answers are of, instead of today
    python3 generate.py --out FILE          write elsewhere than beside this script; the prices go beside FILE
    python3 generate.py --prices            write the prices alone, of the types in instances.csv

Sources, of both of which figures alone are taken:

- The PyPI package moto (Apache-2.0), which ships what EC2's DescribeInstanceTypes and
  DescribeInstanceTypeOfferings answer in every public region.
- The Go module github.com/aws/karpenter-provider-aws (Apache-2.0), whose generated tables
  `zz_generated.bandwidth.go` and `zz_generated.vpclimits.go` have what those answers lack: the network
  bandwidth label, the branch interfaces for pods, and the interfaces and addresses that limit pods. Its tables
  `zz_generated.pricing_aws*.go` have the on-demand list prices that Karpenter starts with.

A column holds what Karpenter would put on the type as a label or resource. An empty cell means that the label
or resource is absent, `?` that its value is not known, and hypervisor `-` stands for the empty string that
Karpenter sets on metal types. `network_cards` has the interfaces of each card in order (`8+7`; `4*16`: sixteen
cards of four), `features` letters: n for ENA, e for Nitro Enclaves, v for nested virtualization. A type that Karpenter's tables do not have yet is newer than they are: its label
depends on the release.

What both lack is in the tables RETIRED and UNSTATED_NEURON below, each with its source.
"""

import argparse
import datetime
import gzip
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

COLUMNS = (
    "instance_type arch vcpu memory_mib cpu_manufacturer clock_mhz hypervisor encryption local_nvme_gb "
    "instance_store_gb ebs_mbps network_mbps gpu_name gpu_manufacturer gpu_count gpu_memory_mib accelerator_name "
    "accelerator_manufacturer accelerator_count nvidia_gpu amd_gpu neuron neuroncore gaudi efa enis ipv4_per_eni "
    "pod_eni spot regions network_cards features"
).split()

# The regions whose on-demand list prices are taken. Those of China are in another currency and of another year.
PRICED = {"zz_generated.pricing_aws.go": ["us-east-1"], "zz_generated.pricing_aws_us_gov.go": ["us-gov-east-1", "us-gov-west-1"]}

# The bit set in rules/src/catalog/set.rs has room for this many.
MOST_TYPES = 1536

# Families that left EC2's public lists. Sizes and devices: AWS's "Amazon EC2 instance types" guide (previous
# generation and accelerated computing pages) and the instance type reference in Karpenter's own documentation
# of the last version that listed them (g4ad: 1.14, dl1: 1.13, p3 and f1: 1.12, p2, g3 and g3s: 1.0).
# name: arch, vcpu, MiB, cpu maker, hypervisor, store GB, EBS Mbps, network Mbps, gpu (name, maker, count, MiB), EFA, ENIs, IPs
RETIRED = {
    "dl1.24xlarge": (96, 786432, "intel", "nitro", 4000, 19000, 400000, ("gaudi-hl-205", "habana", 8, 32768), 4, 15, 50),
    "f1.2xlarge": (8, 124928, "intel", "xen", 470, 1700, 2500, None, 0, 4, 15),
    "f1.4xlarge": (16, 249856, "intel", "xen", 940, 3500, 5000, None, 0, 8, 30),
    "f1.16xlarge": (64, 999424, "intel", "xen", 3760, 14000, 25000, None, 0, 8, 50),
    "g3s.xlarge": (4, 31232, "intel", "xen", 0, 850, "", ("m60", "nvidia", 1, 8192), 0, 4, 15),
    "g3.4xlarge": (16, 124928, "intel", "xen", 0, 3500, "", ("m60", "nvidia", 1, 8192), 0, 8, 30),
    "g3.8xlarge": (32, 249856, "intel", "xen", 0, 7000, 10000, ("m60", "nvidia", 2, 8192), 0, 8, 30),
    "g3.16xlarge": (64, 499712, "intel", "xen", 0, 14000, 25000, ("m60", "nvidia", 4, 8192), 0, 15, 50),
    "g4ad.xlarge": (4, 16384, "amd", "nitro", 150, 3170, 2000, ("radeon-pro-v520", "amd", 1, 8192), 0, 2, 4),
    "g4ad.2xlarge": (8, 32768, "amd", "nitro", 300, 3170, 4167, ("radeon-pro-v520", "amd", 1, 8192), 0, 2, 4),
    "g4ad.4xlarge": (16, 65536, "amd", "nitro", 600, 3170, 8333, ("radeon-pro-v520", "amd", 1, 8192), 0, 3, 10),
    "g4ad.8xlarge": (32, 131072, "amd", "nitro", 1200, 3170, 15000, ("radeon-pro-v520", "amd", 2, 8192), 0, 4, 15),
    "g4ad.16xlarge": (64, 262144, "amd", "nitro", 2400, 6300, 25000, ("radeon-pro-v520", "amd", 4, 8192), 0, 8, 30),
    "p2.xlarge": (4, 62464, "intel", "xen", 0, 750, "", ("k80", "nvidia", 1, 12288), 0, 4, 15),
    "p2.8xlarge": (32, 499712, "intel", "xen", 0, 5000, 10000, ("k80", "nvidia", 8, 12288), 0, 8, 30),
    "p2.16xlarge": (64, 749568, "intel", "xen", 0, 10000, 25000, ("k80", "nvidia", 16, 12288), 0, 8, 30),
    "p3.2xlarge": (8, 62464, "intel", "xen", 0, 1750, 2500, ("v100", "nvidia", 1, 16384), 0, 4, 15),
    "p3.8xlarge": (32, 249856, "intel", "xen", 0, 7000, 10000, ("v100", "nvidia", 4, 16384), 0, 8, 30),
    "p3.16xlarge": (64, 499712, "intel", "xen", 0, 14000, 25000, ("v100", "nvidia", 8, 16384), 0, 8, 30),
}

# EC2's answer for this type has no NeuronInfo. Devices and cores: AWS's "Amazon EC2 Trn2 instances" page. Whether
# Karpenter labels it depends on what EC2 answers by then.
UNSTATED_NEURON = {"trn2u.48xlarge": (16, 128)}

MODULE = "github.com/aws/karpenter-provider-aws"
VERSION = "v1.15.1"


class Karpenter:
    """The generated tables of Karpenter's provider for AWS."""

    def __init__(self, module):
        folder = module / "pkg" / "providers" / "instancetype"
        bandwidth = (folder / "zz_generated.bandwidth.go").read_text()
        limits = (folder / "zz_generated.vpclimits.go").read_text()
        self.version = re.search(r"@(v[\d.]+)$", module.name)[1]
        # Mbps by type.
        self.bandwidth = {m[1]: int(m[2]) for m in re.finditer(r'^\t\t"([^"]+)":\s+(\d+),', bandwidth, re.M)}
        # Types for which EC2's guide has words ("Moderate") and no number: they get no label.
        self.worded = set(re.findall(r"^\t\t// (\S+) has vague bandwidth information", bandwidth, re.M))
        # (interfaces of the default card, IPv4 addresses of each, branch interfaces) by type.
        self.limits = {m[1]: self.row(m[2]) for m in re.finditer(r'^\t"([^"]+)": \{\n(.*?)^\t\},', limits, re.M | re.S)}
        if len(self.bandwidth) < 1000 or len(self.limits) < 1000:
            sys.exit("Karpenter's tables have another form than this script reads")

    @staticmethod
    def row(text):
        def field(name):
            return re.search(rf"^\t\t{name}:\s+(\w+),", text, re.M)[1]

        cards = re.findall(r"MaximumNetworkInterfaces: (\d+),\s+NetworkCardIndex:\s+(\d+),", text)
        interfaces = {index: int(most) for most, index in cards}[field("DefaultNetworkCardIndex")]
        # Branch interfaces need an interface that is a trunk.
        branches = int(field("BranchInterface")) if field("IsTrunkingCompatible") == "true" else 0
        return interfaces, int(field("IPv4PerInterface")), branches

    def cells(self, name):
        """The columns that the tables have of a type."""
        cells = {}
        if name in self.bandwidth:
            cells["network_mbps"] = number(self.bandwidth[name])
        elif name in self.worded:
            cells["network_mbps"] = ""
        if name in self.limits:
            cells["enis"], cells["ipv4_per_eni"], branches = self.limits[name]
            cells["pod_eni"] = number(branches)
        return cells


class Prices:
    """The on-demand list prices that Karpenter starts with, in millionths of a dollar an hour."""

    def __init__(self, module):
        folder = module / "pkg" / "providers" / "pricing"
        self.version = re.search(r"@(v[\d.]+)$", module.name)[1]
        # The day that the file gives, by region; price by region and type.
        self.dates, self.regions = {}, {}
        for name, regions in PRICED.items():
            text = (folder / name).read_text()
            day = re.search(r"^// generated at (\d{4}-\d{2}-\d{2})T", text, re.M)[1]
            for region in regions:
                table = re.search(rf'^\t"{region}": \{{\n(.*?)^\t\}},', text, re.M | re.S)[1]
                pairs = re.findall(r'"([^"]+)": (\d+)\.(\d{6}),', table)
                self.dates[region] = day
                self.regions[region] = {kind: int(whole + rest) for kind, whole, rest in pairs}
        if any(len(prices) < 300 for prices in self.regions.values()):
            sys.exit("Karpenter's price tables have another form than this script reads")

    def write(self, names, out):
        dates = " ".join(f"{region}={day}" for region, day in self.dates.items())
        lines = [
            "# Generated by generate.py in this folder; do not edit by hand.",
            f"# Source: Go module {MODULE} {self.version} (Apache-2.0), on-demand list prices that Karpenter starts with.",
            f"# Dates: {dates}",
            "# Millionths of a dollar an hour, for Linux on shared hardware. Empty: not listed there.",
            ",".join(["instance_type", *self.regions]),
        ]
        for name in names:
            cells = [number(prices.get(name)) for prices in self.regions.values()]
            if any(cells):
                lines.append(",".join([name, *cells]))
        out.write_text("\n".join(lines) + "\n")
        print(f"{out.name}: {len(lines) - 5} types, {dates}")


def label(text):
    """Karpenter's spelling of a device name: lower case, blanks to dashes."""
    return text.lower().replace(" ", "-")


def number(value):
    """A number as a cell; zero means that there is no such label."""
    return str(int(value)) if value else ""


def devices(info, group, kind):
    return info.get(group, {}).get(kind, [])


def interfaces_of(cards):
    """The most interfaces of each card, in the order of the cards."""
    most = [card["MaximumNetworkInterfaces"] for card in sorted(cards, key=lambda card: card["NetworkCardIndex"])]
    runs = [(count, len(list(group))) for count, group in itertools.groupby(most)]
    return "+".join(f"{count}*{times}" if times > 1 else str(count) for count, times in runs)


def features(info):
    """What a class can ask of types beside labels (`pkg/providers/instancetype/compatibility` of Karpenter's provider)."""
    has = {
        "n": info["NetworkInfo"].get("EnaSupport") != "unsupported",
        "e": info.get("NitroEnclavesSupport") == "supported",
        "v": "nested-virtualization" in info["ProcessorInfo"].get("SupportedFeatures", []),
    }
    return "".join(letter for letter, is_there in has.items() if is_there)


def row(name, info):
    network = info["NetworkInfo"]
    cards = network["NetworkCards"]
    arch = "arm64" if "arm64" in info["ProcessorInfo"]["SupportedArchitectures"] else "amd64"
    storage = info.get("InstanceStorageInfo", {})
    store = storage.get("TotalSizeInGB", 0)
    ebs = info.get("EbsInfo", {})
    cells = {
        "instance_type": name,
        "arch": arch,
        "vcpu": info["VCpuInfo"]["DefaultVCpus"],
        "memory_mib": info["MemoryInfo"]["SizeInMiB"],
        "cpu_manufacturer": label(info["ProcessorInfo"].get("Manufacturer", "intel")),
        # A whole number of MHz: 3.5 GHz is 3500. round() because 2.3 * 1000 is not 2300 in floats.
        "clock_mhz": round(info["ProcessorInfo"].get("SustainedClockSpeedInGhz", 0) * 1000),
        "hypervisor": info.get("Hypervisor") or "-",
        "encryption": "true" if network.get("EncryptionInTransitSupported") else "false",
        "local_nvme_gb": number(store if storage.get("NvmeSupport") not in (None, "unsupported") else 0),
        "instance_store_gb": number(store),
        "ebs_mbps": number(
            ebs["EbsOptimizedInfo"]["MaximumBandwidthInMbps"] if ebs.get("EbsOptimizedSupport") == "default" else 0
        ),
        "network_mbps": "?",
        "efa": number(network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)),
        "enis": cards[network["DefaultNetworkCardIndex"]]["MaximumNetworkInterfaces"],
        "ipv4_per_eni": network["Ipv4AddressesPerInterface"],
        "pod_eni": "?",
        "spot": "1" if "spot" in info["SupportedUsageClasses"] else "0",
        "network_cards": interfaces_of(cards),
        "features": features(info),
    }
    gpus = devices(info, "GpuInfo", "Gpus")
    if len(gpus) == 1:
        gpu = gpus[0]
        cells["gpu_name"] = label(gpu["Name"])
        cells["gpu_manufacturer"] = label(gpu["Manufacturer"])
        cells["gpu_count"] = gpu["Count"]
        cells["gpu_memory_mib"] = gpu["MemoryInfo"]["SizeInMiB"]
    for gpu in gpus:
        column = {"nvidia": "nvidia_gpu", "amd": "amd_gpu", "habana": "gaudi"}.get(label(gpu["Manufacturer"]))
        if column:
            cells[column] = number(gpu["Count"])
    neurons = devices(info, "NeuronInfo", "NeuronDevices")
    accelerators = devices(info, "InferenceAcceleratorInfo", "Accelerators")
    if len(neurons) == 1:
        neuron = neurons[0]
        cells["accelerator_name"] = label(neuron["Name"])
        cells["accelerator_manufacturer"] = "aws"
        cells["accelerator_count"] = neuron["Count"]
    elif len(accelerators) == 1:
        accelerator = accelerators[0]
        cells["accelerator_name"] = label(accelerator["Name"])
        cells["accelerator_manufacturer"] = label(accelerator["Manufacturer"])
        cells["accelerator_count"] = accelerator["Count"]
    cells["neuron"] = number(sum(device["Count"] for device in neurons))
    cells["neuroncore"] = number(sum(device["Count"] * device["CoreInfo"]["Count"] for device in neurons))
    if name in UNSTATED_NEURON:
        cells["neuron"], cells["neuroncore"] = UNSTATED_NEURON[name]
        cells["accelerator_name"] = cells["accelerator_manufacturer"] = cells["accelerator_count"] = "?"
    return cells


def retired_row(name):
    vcpu, memory, maker, hypervisor, store, ebs, network, gpu, efa, enis, ips = RETIRED[name]
    cells = {
        "instance_type": name,
        "arch": "amd64",
        "vcpu": vcpu,
        "memory_mib": memory,
        "cpu_manufacturer": maker,
        "clock_mhz": "?",
        "hypervisor": hypervisor,
        "encryption": "?",
        "local_nvme_gb": number(store),
        "instance_store_gb": number(store),
        "ebs_mbps": ebs,
        "network_mbps": network,
        "efa": number(efa),
        "enis": enis,
        "ipv4_per_eni": ips,
        "pod_eni": "?",
        "spot": "1",
        "network_cards": "?",
        "features": "?",
    }
    if gpu:
        cells["gpu_name"], cells["gpu_manufacturer"], cells["gpu_count"], cells["gpu_memory_mib"] = gpu
        column = {"nvidia": "nvidia_gpu", "amd": "amd_gpu", "habana": "gaudi"}[gpu[1]]
        cells[column] = gpu[2]
    return cells


def read(path):
    """moto ships these files gzipped in newer releases and plain in older ones."""
    packed = path.with_name(path.name + ".gz")
    return json.loads(gzip.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes())


def offerings(resources):
    folder = resources / "instance_type_offerings" / "region"
    regions = sorted({entry.name.split(".")[0] for entry in folder.iterdir()})
    return {region: {o["InstanceType"] for o in read(folder / f"{region}.json")} for region in regions}


def order(name):
    """By family, then by size as a person would sort it."""
    family, size = name.split(".", 1)
    small = ["nano", "micro", "small", "medium", "large", "xlarge"]
    number_of = re.match(r"(\d+)xlarge$", size)
    rank = small.index(size) if size in small else 10 + int(number_of[1]) if number_of else 1000
    return family, rank, size


def write(package, karpenter, date, out):
    resources = package / "moto" / "ec2" / "resources"
    version = re.search(r'__version__ = "([^"]+)"', (package / "moto" / "__init__.py").read_text())[1]
    described = read(resources / "instance_types.json")
    regions = offerings(resources)
    rows = {}
    for name, info in described.items():
        # Karpenter asks EC2 for x86_64 and arm64 only; the Mac types answer to neither.
        if {"x86_64", "arm64"} & set(info["ProcessorInfo"]["SupportedArchitectures"]):
            rows[name] = row(name, info)
    for name in RETIRED:
        rows.setdefault(name, retired_row(name))
    for name, cells in rows.items():
        cells.update(karpenter.cells(name))
        bits = sum(1 << index for index, types in enumerate(regions.values()) if name in types)
        cells["regions"] = f"{bits:x}"
    if len(rows) > MOST_TYPES:
        sys.exit(f"{len(rows)} types, but the bit set holds {MOST_TYPES}: enlarge both")
    lines = [
        "# Generated by generate.py in this folder; do not edit by hand.",
        f"# Source: Python package moto {version} (Apache-2.0), EC2 instance types and offerings of every region.",
        f"# Source: Go module {MODULE} {karpenter.version} (Apache-2.0), network bandwidth, interfaces and branch interfaces.",
        f"# Date: {date}",
        "# Empty: label or resource absent. ?: value not known (retired and new families). hypervisor -: the empty string.",
        "# regions: hexadecimal, bit n is region n of the next line; 0 = offered nowhere any more.",
        "# regions " + " ".join(regions),
        ",".join(COLUMNS),
    ]
    for name in sorted(rows, key=order):
        lines.append(",".join(str(rows[name].get(column, "")) for column in COLUMNS))
    out.write_text("\n".join(lines) + "\n")
    print(f"{out.name}: {len(rows)} types, {len(regions)} regions, moto {version}, Karpenter {karpenter.version}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", type=pathlib.Path)
    parser.add_argument("--karpenter", type=pathlib.Path)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).with_name("instances.csv"))
    parser.add_argument("--prices", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        module = options.karpenter or go_module(folder)
        if not options.prices:
            write_instances(options, module, folder)
        lines = [line for line in options.out.read_text().splitlines() if not line.startswith("#")]
        Prices(module).write([line.split(",")[0] for line in lines[1:]], options.out.with_name("prices.csv"))


def write_instances(options, module, folder):
    karpenter = Karpenter(module)
    if not options.package:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, "moto"]
        subprocess.run(pip, check=True)
    write(options.package or pathlib.Path(folder), karpenter, options.date, options.out)


def go_module(folder):
    """The folder of Karpenter's Go module, in Go's own cache."""
    command = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    answer = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
    return pathlib.Path(json.loads(answer.stdout)["Dir"])


if __name__ == "__main__":
    main()
