//! What the input shows of its cluster: versions, feature gates, adapters, and which files are applied.

use serde_json::{Value, json};

use crate::support::Folder;

const POOL: &str = "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n      \
                    nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: web}\n      requirements:\n        \
                    - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}\n";

/// The versions in the JSON report: product, version, file and line.
fn versions(folder: &Folder) -> Vec<Value> {
    let report = folder.run(&["check", "-f", "json"]).json();
    let rows = report["versions"].as_array().unwrap().iter();
    rows.map(|row| json!([row["product"], row["version"], row["file"], row["line"]])).collect()
}

#[test]
fn versions_are_taken_from_what_installs_a_product() {
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: karpenter}\nspec:\n  chart:\n    spec: \
                   {chart: karpenter, version: 0.37.6}\n";
    let terraform =
        "resource \"helm_release\" \"karpenter\" {\n  chart   = \"karpenter\"\n  version = \"0.37.6\"\n}\n";
    let charts = "resources: [pool.yaml]\nhelmCharts:\n  - name: karpenter\n    version: 0.37.6\n";
    let addons = "module \"addons\" {\n  karpenter = {\n    chart_version = \"0.37.6\"\n  }\n}\n";
    let chart = "apiVersion: v2\nname: platform\nversion: 0.1.0\ndependencies:\n  - name: karpenter\n    version: 0.37.6\n    repository: oci://public.ecr.aws/karpenter\n";
    let helmfile = "releases:\n  - name: karpenter\n    chart: oci://public.ecr.aws/karpenter/karpenter\n    version: 0.37.6\n";
    // A list that a module of Terraform reads; what it switches off is not installed.
    let releases = "releases:\n  - chart: karpenter\n    enabled: false\n    chart_version: v1.8.0\n  - chart: karpenter\n    enabled: true\n    chart_version: v0.37.6\n";
    for (file, text, line) in [
        ("release.yaml", release, 6),
        ("terraform/main.tf", terraform, 3),
        ("eks.tf", addons, 3),
        ("kustomization.yaml", charts, 4),
        ("karpenter/Chart.yaml", chart, 6),
        ("helmfile.yaml", helmfile, 4),
        ("terraform/helm-releases.yaml", releases, 7),
    ] {
        let folder = Folder::new().with("pool.yaml", POOL).with(file, text);
        assert_eq!(versions(&folder), [json!(["Karpenter", "0.37", file, line])], "{file}");
        let run = folder.run(&["check", "-f", "concise", "--verbose"]).exits(0);
        let run = run.complains("Karpenter 0.37").complains(&format!("{file}:{line}"));
        run.prints("info[karpenter-legacy-api]");
        // What is stated wins.
        let folder = folder.with("gpulint.yaml", "platform: {karpenter: \"1.15\"}\n");
        assert!(versions(&folder).is_empty());
        folder.run(&["check", "-f", "concise"]).exits(1).prints("error[karpenter-legacy-api]");
    }
    // A variable has one value where its default or a file of variables gives it, and none where another module gives it.
    let by_variable = terraform.replace("\"0.37.6\"", "var.karpenter");
    let declared = "variable \"karpenter\" {\n  default = \"0.37.6\"\n}\n";
    let folder = Folder::new()
        .with("pool.yaml", POOL)
        .with("tf/main.tf", &by_variable)
        .with("tf/variables.tf", declared);
    assert_eq!(versions(&folder), [json!(["Karpenter", "0.37", "tf/main.tf", 3])]);
    // The default holds where no caller passes another one.
    let caller = |arguments: &str| format!("module \"karpenter\" {{\n  source = \"../tf\"\n{arguments}}}\n");
    let folder = folder.with("example/main.tf", caller("  cluster = \"a\"\n"));
    assert_eq!(versions(&folder), [json!(["Karpenter", "0.37", "tf/main.tf", 3])]);
    let folder = folder.with("example/main.tf", caller("  karpenter = \"0.36.0\"\n"));
    assert!(versions(&folder).is_empty());
    let folder = folder.with("example/main.tf", "").with("tf/prod.tfvars", "karpenter = \"0.36.0\"\n");
    assert!(versions(&folder).is_empty());
    let folder = Folder::new()
        .with("pool.yaml", POOL)
        .with("tf/main.tf", &by_variable)
        .with("tf/terraform.tfvars", "karpenter = \"0.37.6\"\n");
    assert_eq!(versions(&folder), [json!(["Karpenter", "0.37", "tf/main.tf", 3])]);
    let folder = folder.with("main.tf", "module \"karpenter\" {\n  source = \"./tf\"\n}\n");
    assert!(versions(&folder).is_empty());
    // Two versions are none.
    let folder = Folder::new()
        .with("pool.yaml", POOL)
        .with("release.yaml", release)
        .with("main.tf", terraform.replace("0.37", "0.36"))
        .with("other.yaml", release.replace("0.37", "1.8").replace("name: karpenter}", "name: b}"));
    assert!(versions(&folder).is_empty());
}

#[test]
fn versions_are_taken_from_scripts_and_documentation() {
    let helm = "#!/bin/sh\nhelm upgrade --install karpenter oci://public.ecr.aws/karpenter/karpenter \\\n  --namespace karpenter \\\n  --version 0.37.6 \\\n  --wait\n";
    let readme =
        "# Install\n\n```bash\nexport KARPENTER_NAMESPACE=karpenter KARPENTER_VERSION=\"v0.37.6\"\n```\n";
    let workflow = "name: deploy\non: push\nenv:\n  KARPENTER_VERSION: \"0.37.6\"\njobs: {}\n";
    let crds = "install:\n\tkubectl apply -f https://raw.githubusercontent.com/aws/karpenter-provider-aws/v0.37.6/pkg/apis/crds/karpenter.sh_nodepools.yaml\n";
    let remote = "resources:\n  - pool.yaml\n  - https://raw.githubusercontent.com/aws/karpenter-provider-aws/v0.37.6/pkg/apis/crds/a.yaml\n";
    for (file, text, line) in [
        ("install.sh", helm, 4),
        ("README.md", readme, 4),
        (".env", "KARPENTER_VERSION=0.37.6 # as in production\n", 1),
        ("env.sh", "export KARPENTER_VERSION=${KARPENTER_VERSION:-0.37.6}\n", 1),
        ("Makefile", "KARPENTER_VERSION ?= 0.37.6\n", 1),
        (".github/workflows/deploy.yml", workflow, 4),
        ("make/Makefile", crds, 2),
        ("kustomization.yaml", remote, 3),
    ] {
        let folder = Folder::new().with("pool.yaml", POOL).with(file, text);
        assert_eq!(versions(&folder), [json!(["Karpenter", "0.37", file, line])], "{file}");
    }
    // What installs it counts before what is written about it.
    let terraform =
        "resource \"helm_release\" \"karpenter\" {\n  chart   = \"karpenter\"\n  version = \"0.36.1\"\n}\n";
    let folder = Folder::new().with("pool.yaml", POOL).with("README.md", readme).with("main.tf", terraform);
    assert_eq!(versions(&folder), [json!(["Karpenter", "0.36", "main.tf", 3])]);
    // Two versions are none, and so is one that is not known or that is of something else.
    for (file, text) in [
        ("other.sh", "KARPENTER_VERSION=0.36.2\n"),
        ("setup.sh", "helm install karpenter karpenter/karpenter --version 1.0.6\n"),
    ] {
        let folder = Folder::new().with("pool.yaml", POOL).with("README.md", readme).with(file, text);
        assert!(versions(&folder).is_empty(), "{file}");
    }
    for (file, text) in [
        ("env.sh", "# export KARPENTER_VERSION=0.37.6\nexport KARPENTER_VERSION=$1\n"),
        ("CHANGELOG.md", readme),
        ("install.sh", "helm upgrade --install pools ./karpenter --namespace karpenter --version 0.37.6\n"),
        (
            "Makefile",
            "K8S_VERSION ?= 1.31.0\ncluster:\n\tkind create cluster --image kindest/node:v$(K8S_VERSION)\n",
        ),
        ("notes.md", "KARPENTER_VERSION is `0.37.6` | KARPENTER_VERSION=0.37.6\n"),
    ] {
        let folder = Folder::new().with("pool.yaml", POOL).with(file, text);
        assert!(versions(&folder).is_empty(), "{file}");
    }
    // One example of several says nothing of the others.
    let folder = Folder::new().with("serving/pool.yaml", POOL).with("training/README.md", readme);
    assert!(versions(&folder).is_empty());
    for file in ["serving/README.md", "scripts/README.md"] {
        let folder = Folder::new().with("serving/pool.yaml", POOL).with(file, readme);
        assert_eq!(versions(&folder), [json!(["Karpenter", "0.37", file, 4])]);
    }
    for (file, text, line) in [
        ("create.sh", "eksctl create cluster --name shop --version 1.31 --region eu-west-1\n", 1),
        ("create.sh", "aws eks create-cluster --name shop \\\n  --kubernetes-version=1.31\n", 2),
        (
            "create.sh",
            "cat > cluster.yaml <<EOF\napiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata:\n  name: shop\n  version: \"1.31\"\nEOF\n",
            6,
        ),
        ("envs/prod.env", "export K8S_VERSION=1.31\n", 1),
        ("eks.mk", "CLUSTER_VERSION := 1.31\n", 1),
    ] {
        let folder = Folder::new().with("pool.yaml", POOL).with(file, text);
        assert_eq!(versions(&folder), [json!(["Kubernetes", "1.31", file, line])], "{file}");
    }
    let scaled = "apiVersion: keda.sh/v1alpha1\nkind: TriggerAuthentication\nmetadata: {name: a}\nspec: {}\n";
    let keda = "kubectl apply --server-side -f https://github.com/kedacore/keda/releases/download/v2.14.0/keda-2.14.0.yaml\n";
    for (file, text) in [("keda.sh", keda), (".envrc", "export KEDA_VERSION=2.14.2\n")] {
        let folder = Folder::new().with("auth.yaml", scaled).with(file, text);
        assert_eq!(versions(&folder), [json!(["KEDA", "2.14", file, 1])], "{file}");
    }
}

#[test]
fn a_script_for_one_cluster_does_not_show_that_another_has_karpenter() {
    let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      tolerations: [{operator: Exists}]\n      containers: [{name: web, image: \"example.com/web:1.0.0\"}]\n";
    let check = ["check", "-f", "concise", "--quiet", "--select", "tolerates-disruption-taint"];
    let repository = || Folder::new().with("simulation/pool.yaml", POOL).with("shop/web/web.yaml", web);
    let script = "KARPENTER_VERSION=\"${KARPENTER_VERSION:-v1.8.0}\"\n";
    let run = repository().with("simulation/scripts/install.sh", script).run(&check);
    assert_eq!(run.out, "", "{run:#?}");
    let configured = "platform: {karpenter: \"1.8\"}\n";
    repository().with("gpulint.yaml", configured).run(&check).prints("shop/web/web.yaml");
}

#[test]
fn scripts_with_manifests_are_counted() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n";
    let script = format!("#!/bin/sh\ncat <<'EOF' | kubectl apply -f -\n{map}EOF\n");
    let other = "cat > config <<EOF\napiVersion = 1\nEOF\ncat <<< \"$X\"\n";
    let folder = Folder::new().with("map.yaml", map).with("setup.sh", script).with("other.sh", other);
    let run = folder.run(&["check", "."]).exits(0);
    run.prints("1 script with manifests not read: pipe the applied manifests to gpulint check -");
    let run = Folder::new().with("map.yaml", map).with("other.sh", other).run(&["check", "."]).exits(0);
    assert!(!run.out.contains("not read"), "{run:#?}");
}

#[test]
fn secrets_that_scripts_create_are_there() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - name: a\n      image: example.com/a:1.0.0\n      envFrom: [{secretRef: {name: hub-token}}]\n";
    let check = ["check", "-f", "concise", "--quiet", "--complete", "--select", "reference-missing"];
    // One that is written almost the same.
    let other = "apiVersion: v1\nkind: Secret\nmetadata: {name: hub-tokens}\nstringData: {token: a}\n";
    let both = || Folder::new().with("pod.yaml", pod).with("secret.yaml", other);
    both().run(&check).prints("hub-token");
    let script = "kubectl create secret generic hub-token \\\n  --from-literal=token=\"$TOKEN\"\n";
    let workflow = "on: push\njobs:\n  deploy:\n    steps:\n      - run: kubectl create secret generic hub-token --from-literal=token=${{ secrets.HUB }}\n";
    for (file, text) in
        [("deploy.sh", script), ("README.md", script), (".github/workflows/deploy.yml", workflow)]
    {
        let run = both().with(file, text).run(&check);
        assert_eq!(run.out, "", "{file}");
    }
}

#[test]
fn gates_and_adapters_of_other_programs_count() {
    let hpa = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: \
               Deployment, name: a}\n  minReplicas: 0\n  maxReplicas: 3\n  metrics: [{type: External, external: {metric: {name: m}, target: {type: \
               AverageValue, averageValue: \"1\"}}}]\n";
    let folder = Folder::new().with("hpa.yaml", hpa);
    let check =
        ["check", "-f", "concise", "--quiet", "--select", "hpa-replica-bounds", "--kubernetes", "1.34"];
    folder.run(&check).exits(0).prints("HPAScaleToZero");
    let talos = "cluster:\n  apiServer:\n    extraArgs:\n      feature-gates: HPAScaleToZero=true\n";
    for file in ["talos/patches/gates.yaml", "talos/controlplane.yaml.j2"] {
        let run = Folder::new().with("hpa.yaml", hpa).with(file, talos).run(&check).exits(0);
        assert_eq!(run.out, "", "{file}");
    }
}

#[test]
fn served_versions_and_gates_of_other_programs_count() {
    let policy = "apiVersion: admissionregistration.k8s.io/v1beta1\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: a}\nspec: {policyName: a}\n";
    let check = ["check", "-f", "concise", "--quiet", "--select", "api-version-not-served"];
    let folder =
        Folder::new().with("a.yaml", format!("{policy}---\n{policy}").replacen("name: a}", "name: b}", 1));
    let run = folder.run(&check).exits(1);
    assert_eq!(run.out.matches("is off by default").count(), 1, "{run:#?}");
    let talhelper = "clusterName: a\ntalosVersion: v1.12.0\nkubernetesVersion: v1.36.1\ncontrolPlane:\n  patches:\n    - |-\n      cluster:\n        \
                     apiServer:\n          extraArgs:\n            runtime-config: admissionregistration.k8s.io/v1beta1=true\n";
    let terraform = "locals {\n  args = {\n    \"runtime-config\" = \"api/beta=true\"\n  }\n}\n";
    for (file, text) in [("talos/talconfig.yaml", talhelper), ("terraform/main.tf", terraform)] {
        let run = Folder::new().with("a.yaml", policy).with(file, text).run(&check).exits(0);
        assert_eq!(run.out, "", "{file}");
    }
    let folder = Folder::new().with("a.yaml", policy).with("talos/talconfig.yaml", talhelper);
    assert_eq!(versions(&folder), [json!(["Kubernetes", "1.36", "talos/talconfig.yaml", 3])]);
    // A manifest beside it that no set claims does not make it the file of another cluster.
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n";
    let folder = Folder::new().with("apps/policy.yaml", policy).with("talos/extra.yaml", map);
    let folder = folder.with("apps/kustomization.yaml", "resources: [policy.yaml]\n");
    let run = folder.with("talos/talconfig.yaml", talhelper).run(&check).exits(0);
    assert_eq!(run.out, "");
}

#[test]
fn files_about_another_cluster_say_nothing_of_that_of_eks() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      nodeClassRef: {group: \
                karpenter.k8s.aws, kind: EC2NodeClass, name: a}\n      requirements: []\n";
    let policy = "apiVersion: admissionregistration.k8s.io/v1beta1\nkind: MutatingAdmissionPolicyBinding\nmetadata: {name: a}\nspec: {policyName: a}\n";
    let talos = "cluster:\n  apiServer:\n    image: registry.k8s.io/kube-apiserver:v1.36.1\n    extraArgs:\n      \
                 runtime-config: admissionregistration.k8s.io/v1beta1=true\n";
    let check = ["check", "-f", "concise", "--quiet", "--select", "api-version-not-served"];
    let both = Folder::new().with("eks/pool.yaml", pool).with("home/talos.yaml", talos);
    both.with("eks/policy.yaml", policy).run(&check).exits(1).prints("is off by default");
    let both = Folder::new().with("eks/pool.yaml", pool).with("home/talos.yaml", talos);
    let both = both.with("home/policy.yaml", policy);
    assert_eq!(both.run(&check).exits(0).out, "");
    assert!(versions(&both).is_empty());
}

#[test]
fn names_are_whole_for_programs() {
    let name = "a-service-of-the-team-that-looks-after-recommendations-and-search";
    let text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: 80, targetPort: {name}-and-more}}]}}\n"
    );
    let folder = Folder::new().with("a.yaml", text);
    let report = folder.run(&["check", "-f", "json"]).json();
    let messages: Vec<&str> =
        report["diagnostics"].as_array().unwrap().iter().filter_map(|one| one["message"].as_str()).collect();
    assert!(!messages.is_empty() && messages.iter().all(|message| !message.contains('…')), "{messages:#?}");
}

#[test]
fn definitions_of_the_input_say_what_the_api_server_accepts() {
    let crd = |required: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: things.example.com}}\nspec:\n  group: example.com\n  \
             names: {{kind: Thing, plural: things}}\n  scope: Namespaced\n  versions:\n    - name: v1\n      served: true\n      storage: true\n      schema:\n        \
             openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, required: [{required}], properties: {{size: {{type: integer}}}}}}}}}}\n"
        )
    };
    let thing = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: b}\nspec: {}\n";
    let folder = Folder::new().with("thing.yaml", thing).with("crds/things.yaml", crd("size"));
    folder.run(&["check", "-f", "concise"]).exits(1).prints("`spec.size`");
    // A chart has the definition of another release, in a template.
    let template = format!("{{{{- if .Values.crds.enabled }}}}\n{}{{{{- end }}}}\n", crd(""));
    let charted = Folder::new().with("thing.yaml", thing).with("crds/things.yaml", crd("size"));
    charted
        .with("chart/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n")
        .with("chart/templates/crds/things.yaml", template)
        .run(&["check", "-f", "concise"])
        .exits(0);
    // What is defined in two ways is not known.
    let folder = folder.with("other/crd.yaml", crd("")).with("more/crd.yaml", crd(""));
    folder.run(&["check", "-f", "concise"]).exits(0);
}

/// A repository may have a part of a definition, for its tests, or that of another release than the cluster.
#[test]
fn a_definition_of_the_input_may_be_a_part_of_the_published_one() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: servicemonitors.monitoring.coreos.com}\nspec:\n  \
               group: monitoring.coreos.com\n  names: {kind: ServiceMonitor, plural: servicemonitors}\n  scope: Namespaced\n  versions:\n    - name: v1\n      \
               served: true\n      storage: true\n      schema:\n        openAPIV3Schema:\n          type: object\n          properties:\n            spec:\n              \
               type: object\n              properties:\n                selector: {type: object, x-kubernetes-preserve-unknown-fields: true}\n                \
               endpoints: {type: array, items: {type: object, properties: {port: {type: string, enum: [http]}}}}\n";
    let monitor = "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: api, namespace: web}\nspec:\n  selector: {matchLabels: {app: api}}\n  \
                   endpoints:\n    - port: metrics\n      bearerTokenFile: /token\n      bearerTokenFil: /token\n";
    let folder = Folder::new().with("monitor.yaml", monitor).with("test/crds/monitors.yaml", crd);
    folder
        .run(&["check", "-f", "concise", "--select", "unknown-field", "--select", "invalid-value"])
        .exits(1)
        .prints("monitor.yaml:7:13: info[invalid-value]")
        .prints("monitor.yaml:8:7: info[unknown-field]")
        .prints("monitor.yaml:9:7: error[unknown-field]");
    folder
        .run(&["check", "-f", "json", "--select", "unknown-field"])
        .prints("the published definition accepts it");
    // What the user gives is the definition of the cluster.
    folder
        .run(&["check", "-f", "concise", "--select", "unknown-field", "--crds", "test/crds"])
        .prints("monitor.yaml:8:7: error[unknown-field]");
}

#[test]
fn terraform_is_not_read_as_yaml() {
    let folder = Folder::new().with("main.tf", "resource \"a\" \"b\" {\n  c = [\n}\n");
    folder.run(&["check", "main.tf"]).exits(2).complains("main.tf: terraform");
}

#[test]
fn queries_in_a_dashboard_have_their_own_place() {
    let dashboard = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gpus, namespace: monitoring}\ndata:\n  gpus.json: |\n    {\n      \"panels\": [\n        \
                     {\"datasource\": \"prometheus\", \"targets\": [\n          {\"expr\": \"sum(rate(a[5m])\"}\n        ]}\n      ]\n    }\n";
    let run = Folder::new().with("a.yaml", dashboard).run(&["check", "-f", "concise", "--quiet"]).exits(1);
    assert!(run.out.starts_with("a.yaml:9:21: warning[promql-invalid]"), "{run:#?}");
}

#[test]
fn what_comes_from_elsewhere_is_not_missing() {
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: load, namespace: ml}\nspec:\n  backoffLimit: 1\n  template:\n    spec:\n      \
               serviceAccountName: reader\n      restartPolicy: Never\n      containers: [{name: a, image: example.com/load:1.0.0}]\n";
    let flux = |path: &str| {
        format!(
            "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: jobs, namespace: flux-system}}\n\
             spec: {{path: {path}, sourceRef: {{kind: GitRepository, name: fleet}}}}\n"
        )
    };
    let here = flux("./jobs");
    let other = flux("./rbac");
    for (file, text, is_missing) in [
        ("jobs/kustomization.yaml", "resources: [load.yaml]\n", true),
        ("flux.yaml", here.as_str(), true),
        ("flux.yaml", other.as_str(), false),
        ("jobs/kustomization.yaml", "resources: [load.yaml]\nhelmCharts: [{name: accounts}]\n", false),
        (
            "rbac/kustomization.yaml",
            "resources: [\"https://example.com/accounts.git//rbac?ref=v1\"]\n",
            false,
        ),
    ] {
        let folder = Folder::new().with("jobs/load.yaml", job).with(file, text);
        let run = folder.run(&["check", "-f", "concise", "--complete"]);
        assert_eq!(run.out.contains("[reference-missing]"), is_missing, "{file}: {text}\n{run:#?}");
    }
}

#[test]
fn what_other_programs_install_is_not_missing() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  template:\n    spec:\n      \
                nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}\n      \
                requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}]\n---\n\
                apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\nspec:\n  role: nodes\n  \
                amiSelectorTerms: [{alias: al2023@v20260810}]\n";
    let plugin = "https://example.com/NVIDIA/k8s-device-plugin/v0.17.4/plugin.yml";
    for (file, text, is_missing) in [
        ("kustomization.yaml", "resources: [gpu.yaml]\nhelmCharts: [{name: redis}]\n".to_owned(), true),
        ("kustomization.yaml", "resources: [gpu.yaml]\nhelmCharts: [{name: gpu-operator}]\n".to_owned(), false),
        ("kustomization.yaml", format!("resources: [gpu.yaml, \"{plugin}\"]\n"), false),
        ("helmfile.yaml", "releases: [{name: a, chart: nvdp/nvidia-device-plugin}]\n".to_owned(), false),
        ("helmfile.yaml.gotmpl", "releases:\n  - chart: nvdp/nvidia-device-plugin\n".to_owned(), false),
        ("main.tf", "module \"addons\" {\n  enable_nvidia_gpu_operator = true\n}\n".to_owned(), false),
        ("main.tf", "module \"addons\" {\n  enable_nvidia_gpu_operator = false\n}\n".to_owned(), true),
        (
            "plugin.yaml",
            "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: a, namespace: kube-system}\nspec: {chart: nvidia-device-plugin}\n"
                .to_owned(),
            false,
        ),
    ] {
        let folder = Folder::new().with("gpu.yaml", pool).with(file, &*text);
        let run = folder.run(&["check", "-f", "concise", "--complete"]);
        assert_eq!(run.out.contains("[gpu-device-plugin-missing]"), is_missing, "{file}: {text}\n{run:#?}");
    }
}

#[test]
fn a_version_that_objects_contradict_is_named() {
    let current = POOL
        .replace("v1beta1", "v1")
        .replace("apiVersion: karpenter.k8s.aws/v1,", "group: karpenter.k8s.aws,");
    let current = current.replace("name: web}\nspec", "name: batch}\nspec");
    let terraform =
        "resource \"helm_release\" \"karpenter\" {\n  chart   = \"karpenter\"\n  version = \"0.37.6\"\n}\n";
    let folder = Folder::new().with("web.yaml", POOL).with("batch.yaml", &current).with("main.tf", terraform);
    assert!(versions(&folder).is_empty());
    let run = folder.run(&["check", "-f", "json", "--select", "karpenter-legacy-api"]);
    let report = run.json();
    let finding = &report["diagnostics"][0];
    let message = finding["message"].as_str().unwrap();
    assert!(
        message.ends_with("is not served from Karpenter 1.1 on, and NodePool `batch` needs 1.0"),
        "{message}"
    );
    assert!(finding["help"].as_str().unwrap().contains("main.tf:3 has 0.37"), "{finding:#}");
    // A heredoc whose only user is commented out is not applied, and contradicts nothing.
    let locals = format!("locals {{\n  batch = <<-EOT\n{current}  EOT\n}}\n# yaml_body = local.batch\n");
    let folder = Folder::new().with("web.yaml", POOL).with("pools.tf", &locals).with("main.tf", terraform);
    assert_eq!(versions(&folder), [json!(["Karpenter", "0.37", "main.tf", 3])]);
}

#[test]
fn objects_of_files_that_are_not_read_exist() {
    let pool = POOL
        .replace("v1beta1", "v1")
        .replace("apiVersion: karpenter.k8s.aws/v1,", "group: karpenter.k8s.aws,");
    let other =
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: batch}\nspec: {role: a}\n";
    let class = |ami: &str| {
        format!(
            "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata:\n  name: web\nspec:\n  amiSelectorTerms:\n    - id: {ami}\n"
        )
    };
    let folder = Folder::new().with("pool.yaml", &pool).with("other.yaml", other);
    let args = ["check", "-f", "concise", "--select", "node-class-missing"];
    folder.run(&args).prints("no EC2NodeClass `web` is among the classes here");
    let script = format!("cat <<EOF | kubectl apply -f -\n{}EOF\n", class("$AMI"));
    for (file, text) in [
        ("web.yaml", class("{{AMI}}/{{B}}: c: d")),
        ("web.yaml.j2", class("{{ ami }}")),
        ("web.yaml.tftpl", class("${ami}")),
        ("apply.sh", script),
    ] {
        let run = folder.run(&args);
        assert!(run.out.contains("node-class-missing"), "{file}");
        let with = Folder::new().with("pool.yaml", &pool).with("other.yaml", other).with(file, &text);
        let run = with.run(&args);
        assert!(!run.out.contains("node-class-missing"), "{file}: {run:#?}");
    }
}
