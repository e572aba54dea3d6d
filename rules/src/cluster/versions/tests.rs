use super::{
    Fact, TerraformValues, called_modules, charts_of_text, facts_of_text, minor_of, pins_of_terraform,
    product_of_chart,
};

#[test]
fn terraform_and_helmfiles_install_charts() {
    let of = |text: &str| {
        let names = charts_of_text(text).into_iter().filter_map(|(fact, _)| match fact {
            Fact::Installs(name) => Some(name),
            _ => None,
        });
        names.collect::<Vec<_>>().join(" ")
    };
    let release =
        "resource \"helm_release\" \"gpu\" {\n  chart = \"nvidia-device-plugin\"\n  version = \"1\"\n}\n";
    assert_eq!(of(release), "gpu nvidia-device-plugin");
    assert_eq!(of(&release.replace("\"gpu\"", "\"web\"").replace("nvidia-device-plugin", "redis")), "");
    let addons = "module \"addons\" {\n  enable_nvidia_gpu_operator = true\n  enable_argocd = false\n}\n";
    assert_eq!(of(addons), "nvidia-gpu-operator");
    assert_eq!(of("addons = {\n  aws-ebs-csi-driver = {}\n  # a-b = {}\n}\n"), "aws-ebs-csi-driver");
    assert_eq!(of("releases:\n  - chart: nvdp/nvidia-device-plugin\n"), "nvdp/nvidia-device-plugin");
    assert_eq!(of("resource \"aws_s3_bucket\" \"gpu\" {\n  bucket = \"gpu\"\n}\n"), "");
}
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

#[test]
fn terraform_names_charts_and_clusters() {
    let none = TerraformValues::default();
    let addons = "module \"addons\" {\n  enable_karpenter = true\n  karpenter = {\n    chart_version = \"0.37.6\"\n  }\n\
                  \x20 argocd = {\n    chart_version = \"7.1.0\"\n  }\n}\n";
    assert_eq!(pins_of_terraform(addons, &none), [(Product::Karpenter, "0.37.6", 4)]);
    let text = "module \"eks\" {\n  cluster_version   = \"1.33\" # EKS\n}\n\
                resource \"helm_release\" \"karpenter\" {\n  chart = \"karpenter\"\n  version = \"1.8.2\"\n}\n\
                resource \"helm_release\" \"other\" {\n  version = \"3.1.0\"\n  chart = \"other\"\n}\n\
                resource \"helm_release\" \"keda\" {\n  version = var.keda\n  chart = \"keda\"\n}\n";
    assert_eq!(
        pins_of_terraform(text, &none),
        [(Product::Kubernetes, "1.33", 2), (Product::Karpenter, "1.8.2", 6)]
    );
    let cluster = "resource \"aws_eks_cluster\" \"main\" {\n  version = \"1.30\"\n}\n\
                   resource \"aws_rds_cluster\" \"main\" {\n  version = \"16.1\"\n}\n";
    assert_eq!(pins_of_terraform(cluster, &none), [(Product::Kubernetes, "1.30", 2)]);
}

#[test]
fn variables_and_locals_of_terraform_have_values_where_there_is_one() {
    const USE: &str = "module \"eks\" {\n  cluster_version = var.kubernetes\n}\n\
                       resource \"helm_release\" \"keda\" {\n  chart = \"keda\"\n  version = local.keda\n}\n";
    const DECLARED: &str = "variable \"kubernetes\" {\n  type = string\n  default = \"1.33\" # EKS\n  validation {\n    default = \"1.1\"\n  }\n}\n\
                            variable \"keda\" { default = \"2.17.1\" }\n\
                            locals {\n  keda = \"${var.keda}\"\n  tags = {\n    keda = \"1.0.0\"\n  }\n}\n";
    let pins = |values: &TerraformValues| -> Vec<String> {
        pins_of_terraform(USE, values)
            .into_iter()
            .map(|(_, version, line)| format!("{version}:{line}"))
            .collect()
    };
    let mut values = TerraformValues::default();
    assert!(pins(&values).is_empty());
    values.declare(DECLARED);
    assert_eq!(pins(&values), ["1.33:2", "2.17.1:6"]);
    // A file that Terraform reads by itself replaces the default; one that may be named makes it uncertain.
    values.set("kubernetes = \"1.34\"\n", true);
    assert_eq!(pins(&values), ["1.34:2", "2.17.1:6"]);
    let mut named = values.clone();
    named.set("kubernetes = \"1.34\"\nkeda = \"2.18.0\"\n", false);
    assert_eq!(pins(&named), ["1.34:2"]);
    // Arguments of a module that another one calls.
    values.forget_variables();
    assert!(pins(&values).is_empty());
    let calls = "module \"a\" {\n  source = \"../eks\"\n}\nmodule \"b\" {\n  source = \"terraform-aws-modules/eks/aws\"\n}\n";
    assert_eq!(called_modules(calls).collect::<Vec<_>>(), ["../eks"]);
    let mut circle = TerraformValues::default();
    circle.declare("locals {\n  keda = local.keda\n}\n");
    assert!(pins(&circle).is_empty());
}
