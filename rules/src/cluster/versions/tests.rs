use std::collections::BTreeSet;

use super::{
    Fact, TerraformFile, TerraformValues, charts_of_template, facts_of_text, minor_of, product_of_chart,
};
use crate::platform::{Product, Version};

#[test]
fn versions_of_charts_stand_for_one_minor_version() {
    for (text, minor) in [
        ("1.8.2", Some((1, 8))),
        ("v0.37.0", Some((0, 37))),
        ("~1.8.0", Some((1, 8))),
        ("1.8.x", Some((1, 8))),
        ("1.8", Some((1, 8))),
        ("2.16.1-debian", Some((2, 16))),
        ("1.x", None),
        ("^1.8.0", None),
        (">=1.8.0", None),
        ("*", None),
        ("main", None),
        ("1.8.2 - 1.9.0", None),
    ] {
        let version = minor.map(|(major, minor)| Version::new(major, minor));
        assert_eq!(minor_of(text), version, "{text}");
    }
}

#[test]
fn files_of_other_programs_show_gates_and_adapters() {
    let talos = "cluster:\n  apiServer:\n    extraArgs:\n      feature-gates: A=true,HPAScaleToZero=true\n";
    let gate = |name: &str| Fact::FeatureGate(name.to_owned());
    assert_eq!(facts_of_text(talos), [(gate("A"), 4), (gate("HPAScaleToZero"), 4)]);
    let api = |name: &str| Fact::ServedApi(name.to_owned());
    for (text, fact, line) in [
        ("extraArgs:\n  runtime-config: a.example.com/v1beta1=true\n", api("a.example.com/v1beta1"), 2),
        ("args = {\n  \"runtime-config\" = \"a/v1alpha1/things=true\"\n}\n", api("a/v1alpha1"), 2),
        ("- name: runtime-config\n  value: api/all=true\n", api("api/all"), 2),
        ("runtimeConfig:\n  \"api/beta\": \"true\"\n", api("api/beta"), 2),
        ("kube-apiserver-arg:\n  - \"runtime-config=b/v1=true\"\n", api("b/v1"), 2),
    ] {
        assert_eq!(facts_of_text(text), [(fact, line)], "{text}");
    }
    let of_k0s =
        |entries: &str| format!("apiVersion: k0s.k0sproject.io/v1beta1\nspec:\n  featureGates:\n{entries}");
    for (entries, line) in [
        ("    - {name: HPAScaleToZero, enabled: true, components: [kube-apiserver]}\n", 4),
        ("    - name: HPAScaleToZero\n      enabled: true\n", 5),
    ] {
        assert_eq!(facts_of_text(&of_k0s(entries)), [(gate("HPAScaleToZero"), line)], "{entries}");
    }
    assert!(facts_of_text(&of_k0s("    - {name: HPAScaleToZero, enabled: false}\n")).is_empty());
    let version = Fact::ServerVersion(Version::new(1, 35));
    for text in [
        "talosVersion: v1.12.1\nkubernetesVersion: v1.35.2\n",
        "apiServer:\n  image: registry.k8s.io/kube-apiserver:v1.35.2\n",
    ] {
        assert_eq!(facts_of_text(text), [(version.clone(), 2)], "{text}");
    }
    assert!(facts_of_text("kubernetesVersion: v1.35.2\n").is_empty());
    assert_eq!(facts_of_text("a: 1\nb: eks.amazonaws.com/x\nc: aws_eks_d\n"), [(Fact::Eks, 2)]);
    assert_eq!(facts_of_text("apiVersion: route.openshift.io/v1\n"), [(Fact::OpenShift, 1)]);
    let labelled = "# nvidia.com/device-plugin.config=a\nlabels: {nvidia.com/device-plugin.config: a}\n";
    assert_eq!(facts_of_text(labelled), [(Fact::DevicePluginLabel, 2)]);
    assert!(facts_of_text("featureGates:\n  HPAScaleToZero: false\n  # HPAScaleToZero: true\n").is_empty());
    let updater = "updater:\n  extraArgs: {min-replicas: 2}\n  # min-replicas: 1\n";
    assert!(facts_of_text(updater).is_empty());
    assert_eq!(facts_of_text("  extraArgs:\n    min-replicas: \"1\"\n"), [(Fact::UpdaterOption, 2)]);
    let values = "rules:\n  custom:\n    - seriesQuery: 'a'\n      resources: {overrides: {exported_pod: {resource: pod}}}\n";
    assert_eq!(facts_of_text(values), [(Fact::MetricsAdapter, 3), (Fact::ExportedLabels, 4)]);
}

#[test]
fn charts_are_known_by_the_end_of_their_address() {
    assert_eq!(product_of_chart("oci://public.ecr.aws/karpenter/karpenter"), Some(Product::Karpenter));
    assert_eq!(product_of_chart("kedacore/keda"), Some(Product::Keda));
    assert_eq!(product_of_chart("karpenter-nodepools"), None);
}

/// The versions in a file of Terraform, with their lines: `Karpenter 1.8.2:6`.
fn pins(text: &str, values: &TerraformValues) -> Vec<String> {
    let file = TerraformFile::read(text);
    let pins = file.pins(values).into_iter();
    pins.map(|(product, version, line)| format!("{product:?} {version}:{line}")).collect()
}

fn installed(facts: &[(Fact, u32)]) -> String {
    let names = facts.iter().filter_map(|(fact, line)| match fact {
        Fact::Installs(name) => Some(format!("{name}:{line}")),
        _ => None,
    });
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn terraform_and_helmfiles_install_charts() {
    let of = |text: &str| installed(TerraformFile::read(text).installs());
    let release =
        "resource \"helm_release\" \"gpu\" {\n  chart = \"nvidia-device-plugin\"\n  version = \"1\"\n}\n";
    assert_eq!(of(release), "gpu:1 nvidia-device-plugin:2");
    assert_eq!(of(&release.replace("\"gpu\"", "\"web\"").replace("nvidia-device-plugin", "redis")), "");
    let addons = "module \"addons\" {\n  enable_nvidia_gpu_operator = true\n  enable_argocd = false\n}\n";
    assert_eq!(of(addons), "nvidia-gpu-operator:2");
    assert_eq!(of("addons = {\n  aws-ebs-csi-driver = {}\n  # a-b = {}\n}\n"), "aws-ebs-csi-driver:2");
    assert_eq!(of("addons = merge(var.a, {\n  \"aws-ebs-csi-driver\" = {}\n})\n"), "aws-ebs-csi-driver:2");
    assert_eq!(of("resource \"aws_s3_bucket\" \"gpu\" {\n  bucket = \"gpu\"\n}\n"), "");
    assert_eq!(of("/*\nmodule \"nvidia\" {\n}\n*/\nmodule \"web\" {\n  source = \"../web\"\n}\n"), "");
    assert_eq!(of("module \"plugin\" { source = \"../nvidia_plugin\" }\n"), "../nvidia-plugin:1");
    let manifest = "resource \"kubectl_manifest\" \"app\" {\n  yaml_body = <<-YAML\n    spec:\n      source:\n        \
                    chart: gpu-operator\n        # chart: nvidia\n  YAML\n}\n";
    assert_eq!(of(manifest), "gpu-operator:5");
    let helmfile = charts_of_template("releases:\n  - chart: nvdp/nvidia-device-plugin\n");
    assert_eq!(installed(&helmfile), "nvdp/nvidia-device-plugin:2");
}

#[test]
fn terraform_names_charts_and_clusters() {
    let none = TerraformValues::default();
    let addons = "module \"addons\" {\n  enable_karpenter = true\n  karpenter = {\n    chart_version = \"0.37.6\"\n  }\n\
                  \x20 argocd = {\n    chart_version = \"7.1.0\"\n  }\n}\n";
    assert_eq!(pins(addons, &none), ["Karpenter 0.37.6:4"]);
    let text = "module \"eks\" {\n  cluster_version   = \"1.33\" # EKS\n}\n\
                resource \"helm_release\" \"karpenter\" {\n  chart = \"karpenter\"\n  version = \"1.8.2\"\n}\n\
                resource \"helm_release\" \"other\" {\n  version = \"3.1.0\"\n  chart = \"other\"\n}\n\
                resource \"helm_release\" \"keda\" {\n  version = var.keda\n  chart = \"keda\"\n}\n";
    assert_eq!(pins(text, &none), ["Kubernetes 1.33:2", "Karpenter 1.8.2:6"]);
    let cluster = "resource \"aws_eks_cluster\" \"main\" {\n  version = \"1.30\"\n}\n\
                   resource \"aws_rds_cluster\" \"main\" {\n  version = \"16.1\"\n}\n";
    assert_eq!(pins(cluster, &none), ["Kubernetes 1.30:2"]);
}

#[test]
fn terraform_is_read_in_each_of_its_forms() {
    for (text, expected) in [
        // A heredoc, whose lines look like attributes and ends of blocks.
        (
            "resource \"helm_release\" \"a\" {\n  chart = \"keda\"\n  values = [<<-EOT\n    version = \"9.9.9\"\n}\n  EOT\n  ]\n  \
             version = \"2.17.1\"\n}\n",
            "Keda 2.17.1:8",
        ),
        // Blocks within the block, with attributes of the same names.
        (
            "resource \"helm_release\" \"a\" {\n  set {\n    name = \"chart\"\n    version = \"1.1.1\"\n  }\n  chart = \"keda\"\n  \
             version = \"2.17.1\"\n}\n",
            "Keda 2.17.1:7",
        ),
        // Comments, and what looks like one.
        ("module \"eks\" {\n  /*\n  cluster_version = \"1.30\"\n  */\n}\n", ""),
        ("module \"eks\" {\n  # cluster_version = \"1.30\"\n  // cluster_version = \"1.31\"\n}\n", ""),
        (
            "module \"eks\" {\n  a = \"a # b\" /* c */\n  cluster_version /* minor */ = \"1.30\" // EKS\n}\n",
            "Kubernetes 1.30:3",
        ),
        // One line.
        ("module \"eks\" { cluster_version = \"1.30\" }\n", "Kubernetes 1.30:1"),
        (
            "module \"a\" {\n  karpenter = { wait = true, chart_version = \"1.8.2\" }\n}\n",
            "Karpenter 1.8.2:2",
        ),
        ("module \"a\" {\n  \"karpenter\" : { chart_version : \"1.8.2\" }\n}\n", ""),
        ("locals {\n  a = { \"karpenter\" : { chart_version : \"1.8.2\" } }\n}\n", "Karpenter 1.8.2:2"),
        // An add-on with maps before its version.
        (
            "module \"a\" {\n  karpenter = {\n    set = [{\n      name = \"a\"\n    }]\n    values = {\n    }\n    \
             chart_version = \"1.8.2\"\n  }\n}\n",
            "Karpenter 1.8.2:8",
        ),
        // Arguments on several lines.
        ("module \"eks\" {\n  cluster_version = (\n    \"1.30\"\n  )\n}\n", "Kubernetes 1.30:2"),
        (
            "resource \"helm_release\" \"a\" {\n  for_each = toset([\n    \"a\",\n  ])\n  chart = \"karpenter\"\n  version = each.value\n}\n",
            "",
        ),
        (
            "resource \"helm_release\" \"a\" {\n  for_each = { a = \"b\" }\n  chart = \"karpenter\"\n  version = \"1.8.2\"\n}\n",
            "Karpenter 1.8.2:4",
        ),
        ("resource \"aws_eks_cluster\" \"a\" {\n  upgrade_policy {\n    version = \"1.1\"\n  }\n}\n", ""),
        // Windows, and a byte order mark.
        ("\u{FEFF}module \"eks\" {\r\n  cluster_version = \"1.30\"\r\n}\r\n", "Kubernetes 1.30:2"),
        // What is chosen when Terraform runs.
        ("module \"eks\" {\n  cluster_version = var.a ? \"1.30\" : \"1.31\"\n}\n", ""),
        ("module \"eks\" {\n  cluster_version = coalesce(\"1.30\", \"1.31\")\n}\n", ""),
        ("module \"eks\" {\n  cluster_version = try(var.a, \"1.31\")\n}\n", ""),
        ("module \"eks\" {\n  cluster_version = \"1.${var.minor}\"\n}\n", ""),
        ("locals {\n  a = var.b ? { cluster_version = \"1.30\" } : {}\n}\n", ""),
        ("variable \"a\" {\n  default = { cluster_version = \"1.30\" }\n}\n", ""),
        // Files that do not parse.
        ("module \"eks\" {\n  cluster_version = \"1.30\"\n", ""),
        ("module \"eks\" {\n  cluster_version = \"1.30\"\n  cluster_version = \"1.31\"\n}\n", ""),
        ("module \"eks\" {\n  a = [\n}\nmodule \"b\" {\n  cluster_version = \"1.30\"\n}\n", ""),
    ] {
        assert_eq!(pins(text, &TerraformValues::default()).join(" "), expected, "{text}");
    }
}

#[test]
fn large_files_of_terraform_are_not_read() {
    let keys: String = (0..40_000).map(|key| format!("k{key} = 1\n")).collect();
    let text = format!("locals {{\n  a = {{\n{keys}}}\n  cluster_version = \"1.30\"\n}}\n");
    assert!(pins(&text, &TerraformValues::default()).is_empty());
}

#[test]
fn keys_of_terraform_may_stand_twice_in_an_object() {
    let text = "locals {\n  cluster_version = \"1.33\"\n  tags = {\n    a = 1\n    \"b/c\" = 2\n    a = 3\n    \"b/c\" = 4\n    a = 5\n  }\n}\n";
    assert_eq!(pins(text, &TerraformValues::default()), ["Kubernetes 1.33:2"]);
    // Those of a block may not.
    assert!(pins(&text.replace("tags =", "tags"), &TerraformValues::default()).is_empty());
}

#[test]
fn variables_and_locals_of_terraform_have_values_where_there_is_one() {
    const USE: &str = "module \"eks\" {\n  cluster_version = var.kubernetes\n}\n\
                       resource \"helm_release\" \"keda\" {\n  chart = local.chart\n  version = local.keda\n}\n";
    const DECLARED: &str = "variable \"kubernetes\" {\n  type = string\n  default = \"1.33\" # EKS\n  validation {\n    default = \"1.1\"\n  }\n}\n\
                            variable \"keda\" { default = \"2.17.1\" }\n\
                            locals {\n  chart = (\"keda\")\n  keda = \"${var.keda}\"\n  tags = {\n    keda = \"1.0.0\"\n  }\n}\n";
    let read = TerraformFile::read;
    let mut values = TerraformValues::default();
    assert!(pins(USE, &values).is_empty());
    values.declare(&read(DECLARED));
    assert_eq!(pins(USE, &values), ["Kubernetes 1.33:2", "Keda 2.17.1:6"]);
    // A file that Terraform reads by itself replaces the default; one that may be named makes it uncertain.
    values.set(&read("kubernetes = \"1.34\"\n"), true);
    assert_eq!(pins(USE, &values), ["Kubernetes 1.34:2", "Keda 2.17.1:6"]);
    let mut named = values.clone();
    named.set(&read("kubernetes = \"1.34\"\nkeda = \"2.18.0\"\n"), false);
    assert_eq!(pins(USE, &named), ["Kubernetes 1.34:2"]);
    // Arguments of a module that another one calls, without those that no caller passes.
    values.forget_arguments(&BTreeSet::from(["kubernetes".to_owned()]));
    assert_eq!(pins(USE, &values), ["Keda 2.17.1:6"]);
    values.forget_arguments(&BTreeSet::from(["keda".to_owned()]));
    assert!(pins(USE, &values).is_empty());
    let calls = "module \"a\" {\n  source = \"../eks\"\n  kubernetes = \"1.33\"\n}\nmodule \"b\" {\n  source = \"terraform-aws-modules/eks/aws\"\n}\n\
                 module \"c\" { source = \"./c\" }\n";
    let calls = read(calls);
    let arguments: Vec<(&str, bool)> = calls
        .called_modules()
        .iter()
        .map(|(path, arguments)| (path.as_str(), arguments.contains("kubernetes")))
        .collect();
    assert_eq!(arguments, [("../eks", true), ("./c", false)]);
    // A circle, a part of a value, and a default that is none.
    for declared in [
        "locals {\n  chart = \"keda\"\n  keda = local.keda\n}\n",
        "locals {\n  chart = \"keda\"\n  keda = local.versions.keda\n  versions = { keda = \"2.17.1\" }\n}\n",
        "locals {\n  chart = \"keda\"\n  keda = var.keda\n}\nvariable \"keda\" {\n  default = null\n}\n",
    ] {
        let mut values = TerraformValues::default();
        values.declare(&read(declared));
        assert!(pins(USE, &values).is_empty(), "{declared}");
    }
}
