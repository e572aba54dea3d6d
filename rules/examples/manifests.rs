//! Writes large input for measurements. Equal arguments give equal output.
//!
//! `manifests one FILE COUNT` writes one file of COUNT NodePools that all differ; `manifests folder DIR FILES`
//! writes FILES files of mixed kinds, about 19 KB each; `manifests cluster DIR FILES` writes what one
//! cluster has, a workload or a NodePool in each of FILES files; `manifests gitops DIR FILES` writes a
//! repository of three clusters, with bases, overlays and Flux Kustomizations; `manifests pools DIR COUNT`
//! writes COUNT files with a NodePool of any sort each, broken ones too.
#![allow(clippy::print_stderr, clippy::unwrap_used, clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

mod pools;

const FAMILIES: [&str; 8] = ["g5", "g6", "g6e", "p4d", "p5", "c7i", "m7i", "r7i"];

/// One NodePool of about 450 bytes. A folder has few of them, so they may be similar.
pub(crate) fn pool(n: usize, out: &mut String) {
    let family = FAMILIES[n % 8];
    let other = FAMILIES[(n / 8) % 8];
    let capacity = if n.is_multiple_of(3) { "spot" } else { "on-demand" };
    write!(
        out,
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: pool-{n}\nspec:\n  template:\n    spec:\n      \
         nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n      requirements:\n        \
         - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [{family}, {other}]}}\n        \
         - {{key: karpenter.sh/capacity-type, operator: In, values: [{capacity}]}}\n      taints:\n        \
         - {{key: nvidia.com/gpu, value: \"true\", effect: NoSchedule}}\n  limits:\n    nvidia.com/gpu: {}\n",
        n % 64 + 8
    )
    .unwrap();
    if n.is_multiple_of(2) {
        out.push_str("  disruption:\n    consolidationPolicy: WhenEmpty\n    consolidateAfter: 5m\n    budgets:\n      - nodes: 10%\n");
    }
}

/// Families of instance types that one NodePool chooses from.
const POOL_FAMILIES: [&str; 32] = [
    "c5", "c6a", "c6i", "c6in", "c7a", "c7g", "c7i", "g4dn", "g5", "g5g", "g6", "g6e", "inf2", "m5", "m6a",
    "m6g", "m6i", "m7a", "m7g", "m7i", "p3", "p4d", "p5", "p5en", "r5", "r6a", "r6g", "r6i", "r7a", "r7i",
    "trn1", "trn2",
];

/// A NodePool of about 750 bytes that shares neither labels, requirements, limits nor taints with most others, as the pools
/// of different teams do.
pub(crate) fn own_pool(n: usize, out: &mut String) {
    // A linear congruential generator. The digits of `n` would repeat in step with each other.
    let mut state = n as u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut families: Vec<&str> = (0..=below(4)).map(|_| POOL_FAMILIES[below(32)]).collect();
    families.sort_unstable();
    families.dedup();
    let is_accelerated = families.iter().any(|family| family.starts_with(['g', 'p', 'i', 't']));
    let zones = ["us-east-1a", "us-east-1a, us-east-1b", "us-east-1b, us-east-1c", "us-east-1a, us-east-1d"]
        [below(4)];
    let capacity = ["on-demand", "spot", "on-demand, spot", "reserved, on-demand"][below(4)];
    let purpose = ["inference", "training", "batch", "web", "notebooks"][below(5)];
    let taint = match is_accelerated {
        true => "{key: nvidia.com/gpu, value: \"true\", effect: NoSchedule}".to_owned(),
        false => format!("{{key: example.com/team, value: t{n:06}, effect: NoSchedule}}"),
    };
    write!(
        out,
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: {purpose}-{n}\nspec:\n  weight: {}\n  template:\n    metadata:\n      \
         labels: {{example.com/team: t{n:06}}}\n    spec:\n      \
         nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: class-{}}}\n      requirements:\n        \
         - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [{}]}}\n        \
         - {{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [\"{}\"]}}\n        \
         - {{key: topology.kubernetes.io/zone, operator: In, values: [{zones}]}}\n        \
         - {{key: karpenter.sh/capacity-type, operator: In, values: [{capacity}]}}\n      taints:\n        - {taint}\n      \
         expireAfter: {}h\n  limits: {{cpu: \"{}\", memory: {}Gi",
        below(100) + 1,
        below(20),
        families.join(", "),
        below(16) + 1,
        (below(30) + 1) * 24,
        below(5000) + 100,
        below(20_000) + 400,
    )
    .unwrap();
    if is_accelerated {
        write!(out, ", nvidia.com/gpu: {}", below(256) + 8).unwrap();
    }
    write!(
        out,
        "}}\n  disruption:\n    consolidationPolicy: {}\n    consolidateAfter: {}m\n    budgets:\n      - nodes: {}%\n      \
         - {{nodes: \"0\", schedule: \"{} {} * * mon-fri\", duration: {}h}}\n",
        ["WhenEmpty", "WhenEmptyOrUnderutilized"][below(2)],
        below(60) + 1,
        below(40) + 5,
        below(60),
        below(24),
        below(9) + 1,
    )
    .unwrap();
}

/// A Deployment with its PDB and ScaledObject, about 1.5 KB. One of eight has many findings, which is the
/// rate in public repositories.
pub(crate) fn service(n: usize, out: &mut String) {
    let team = n % 20;
    let is_bare = n.is_multiple_of(8);
    let unless_bare = |text: &'static str| if is_bare { "" } else { text };
    let spread = match is_bare {
        true => String::new(),
        false => format!(
            "      terminationGracePeriodSeconds: 90\n      topologySpreadConstraints:\n        - maxSkew: 1\n          \
             topologyKey: topology.kubernetes.io/zone\n          whenUnsatisfiable: ScheduleAnyway\n          labelSelector:\n            \
             matchLabels:\n              app: llm-{n}\n"
        ),
    };
    write!(
        out,
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: llm-{n}\n  namespace: team-{team}\n  labels:\n    app: llm-{n}\nspec:\n\
         {}  selector:\n    matchLabels:\n      app: llm-{n}\n  template:\n    metadata:\n      labels:\n        app: llm-{n}\n    spec:\n\
         {}      nodeSelector:\n        example.com/pool: pool-{n}\n      containers:\n        - name: vllm\n          \
         image: example.com/vllm/vllm-openai:v0.11.{team}\n          command: [vllm, serve, /models/{n}]\n          ports:\n            \
         - containerPort: 8000\n{}          resources:\n            requests:\n              cpu: \"4\"\n              memory: 24Gi\n              \
         nvidia.com/gpu: 1\n            limits:\n              nvidia.com/gpu: 1\n",
        if is_bare {
            "  replicas: 3\n"
        } else {
            "  strategy:\n    rollingUpdate:\n      maxSurge: 0\n      maxUnavailable: 1\n"
        },
        spread,
        unless_bare(
            "          readinessProbe:\n            httpGet:\n              path: /health\n              port: 8000\n          \
             lifecycle:\n            preStop:\n              sleep:\n                seconds: 15\n"
        ),
    )
    .unwrap();
    write!(
        out,
        "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: llm-{n}\n  namespace: team-{team}\nspec:\n  \
         maxUnavailable: 1\n{}  selector:\n    matchLabels:\n      app: llm-{n}\n---\n\
         apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata:\n  name: llm-{n}\n  namespace: team-{team}\nspec:\n  scaleTargetRef:\n    \
         name: llm-{n}\n  minReplicaCount: 2\n  maxReplicaCount: 8\n{}  triggers:\n    - type: prometheus\n      metadata:\n        \
         serverAddress: http://prometheus.monitoring:9090\n        query: sum(vllm:num_requests_waiting{{app=\"llm-{n}\"}})\n        threshold: \"4\"\n{}",
        unless_bare("  unhealthyPodEvictionPolicy: AlwaysAllow\n"),
        unless_bare("  fallback:\n    failureThreshold: 3\n    replicas: 4\n"),
        unless_bare("        ignoreNullValues: \"false\"\n"),
    )
    .unwrap();
}

/// One file of a folder: nine services and four pools.
pub(crate) fn app(file: usize) -> String {
    let mut text = String::from("# Made by the manifests example.\n");
    for n in 0..9 {
        if n > 0 {
            text.push_str("---\n");
        }
        service(file * 100 + n, &mut text);
    }
    for n in 0..4 {
        text.push_str("---\n");
        pool(file * 100 + n, &mut text);
    }
    text
}

/// Number of files of a cluster per NodePool.
pub(crate) const FILES_TO_A_POOL: usize = 35;

/// One file of a cluster: a NodePool, or a workload with its PDB and autoscaler. Half of the workloads use
/// accelerators, every fourth chooses a team's pools, and every tenth is a training run that must not be
/// disrupted.
pub(crate) fn cluster(file: usize) -> String {
    let mut out = String::new();
    if file.is_multiple_of(FILES_TO_A_POOL) {
        let n = file / FILES_TO_A_POOL;
        let team = if n.is_multiple_of(4) {
            format!("      labels: {{example.com/team: team-{}}}\n", n % 5)
        } else {
            String::new()
        };
        let (taint, gpus) = match FAMILIES[n % 8].starts_with(['g', 'p']) {
            true => ("      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n", ", nvidia.com/gpu: 64"),
            false => ("", ""),
        };
        write!(
            out,
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: pool-{n}\nspec:\n  weight: {}\n  template:\n    metadata:\n\
             {team}      annotations: {{}}\n    spec:\n      expireAfter: 720h\n      terminationGracePeriod: 48h\n{taint}      \
             nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}\n      requirements:\n        \
             - {{key: karpenter.k8s.aws/instance-family, operator: In, values: [{}, {}]}}\n        \
             - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}\n  \
             limits: {{cpu: \"1000\", memory: 4000Gi{gpus}}}\n  disruption:\n    consolidationPolicy: WhenEmpty\n    consolidateAfter: 5m\n",
            n % 3,
            FAMILIES[n % 8],
            FAMILIES[(n + 1) % 8],
        )
        .unwrap();
        return out;
    }
    let training = file.is_multiple_of(10);
    let (kind, api, command) = if training {
        ("StatefulSet", "apps/v1", "torchrun, train.py")
    } else {
        ("Deployment", "apps/v1", "vllm, serve, /models/a")
    };
    let annotations = match training {
        true => "      annotations: {karpenter.sh/do-not-disrupt: \"true\"}\n",
        false => "",
    };
    let selector = match file % 4 {
        1 => format!("      nodeSelector: {{example.com/team: team-{}}}\n", file % 5),
        _ => String::new(),
    };
    let gpu = match file.is_multiple_of(2) {
        true => ", nvidia.com/gpu: 1",
        false => "",
    };
    write!(
        out,
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: app-{file}\n  namespace: team-{0}\nspec:\n  replicas: 3\n  selector:\n    \
         matchLabels: {{app: app-{file}}}\n  template:\n    metadata:\n      labels: {{app: app-{file}}}\n{annotations}    spec:\n{selector}      \
         tolerations: [{{key: nvidia.com/gpu, operator: Exists}}]\n      containers:\n        - name: main\n          \
         image: example.com/app:v1.{file}\n          command: [{command}]\n          resources:\n            \
         requests: {{cpu: \"{1}\", memory: 8Gi{gpu}}}\n            limits: {{memory: 8Gi{gpu}}}\n---\n\
         apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: app-{file}\n  namespace: team-{0}\nspec:\n  \
         maxUnavailable: 1\n  selector:\n    matchLabels: {{app: app-{file}}}\n---\n\
         apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: app-{file}\n  namespace: team-{0}\nspec:\n  \
         scaleTargetRef: {{apiVersion: {api}, kind: {kind}, name: app-{file}}}\n  minReplicas: 2\n  maxReplicas: 9\n",
        file % 20,
        file % 8 + 1,
    )
    .unwrap();
    out
}

/// The clusters of a repository.
const CLUSTERS: [&str; 3] = ["prod", "stage", "dev"];
/// Number of files per application: a base, and an overlay for each cluster.
const FILES_OF_AN_APP: usize = 2 + 3 * CLUSTERS.len();

/// A repository in which each cluster has an overlay of every application, and its own NodePools.
fn gitops(root: &Path, files: usize) {
    let write = |path: String, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    const KUSTOMIZATION: &str = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";
    let apps = files / FILES_OF_AN_APP;
    for app in 0..apps {
        // The number counts workloads, not NodePools.
        let number = app + app / (FILES_TO_A_POOL - 1) + 1;
        write(format!("apps/base/app-{app}/app.yaml"), &cluster(number));
        write(
            format!("apps/base/app-{app}/kustomization.yaml"),
            &format!("{KUSTOMIZATION}resources: [app.yaml]\n"),
        );
    }
    for (at, name) in CLUSTERS.iter().enumerate() {
        let mut list = format!("{KUSTOMIZATION}resources:\n");
        for app in 0..apps {
            writeln!(list, "  - app-{app}").unwrap();
            let folder = format!("apps/{name}/app-{app}");
            let base = format!(
                "{KUSTOMIZATION}namespace: {name}-{}\nresources: [../../base/app-{app}, config.yaml]\npatches: [{{path: scale.yaml}}]\n",
                app % 20
            );
            write(format!("{folder}/kustomization.yaml"), &base);
            let config = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: app-{app}}}\ndata: {{cluster: {name}}}\n"
            );
            write(format!("{folder}/config.yaml"), &config);
            let number = app + app / (FILES_TO_A_POOL - 1) + 1;
            let scale = format!(
                "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: app-{number}}}\nspec: {{maxReplicas: {}}}\n",
                9 - at
            );
            write(format!("{folder}/scale.yaml"), &scale);
        }
        write(format!("apps/{name}/kustomization.yaml"), &list);
        for n in 0..apps / FILES_TO_A_POOL {
            write(format!("infra/{name}/pool-{n}.yaml"), &cluster(n * FILES_TO_A_POOL));
        }
        for part in ["apps", "infra"] {
            let flux = format!(
                "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {part}, namespace: flux-system}}\n\
                 spec:\n  interval: 10m\n  prune: true\n  path: ./{part}/{name}\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n"
            );
            write(format!("clusters/{name}/{part}.yaml"), &flux);
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mode, target, count] = args.as_slice() else {
        eprintln!(
            "usage: manifests one FILE COUNT | manifests folder|cluster|gitops DIR FILES | manifests pools DIR COUNT"
        );
        std::process::exit(2);
    };
    let count: usize = count.parse().unwrap();
    if mode == "one" {
        let mut text = String::new();
        for n in 0..count {
            if n > 0 {
                text.push_str("---\n");
            }
            own_pool(n, &mut text);
        }
        fs::write(target, text).unwrap();
        return;
    }
    let root = Path::new(target);
    if mode == "gitops" {
        gitops(root, count);
        return;
    }
    if mode == "pools" {
        fs::create_dir_all(root).unwrap();
        for n in 0..count {
            let (text, _) = pools::sample(u64::try_from(n).unwrap());
            fs::write(root.join(format!("pool-{n}.yaml")), text).unwrap();
        }
        return;
    }
    for file in 0..count {
        let folder = root.join(format!("team-{}", file % 40));
        fs::create_dir_all(&folder).unwrap();
        let text = if mode == "cluster" { cluster(file) } else { app(file) };
        fs::write(folder.join(format!("app-{file}.yaml")), text).unwrap();
    }
}
