//! Generates the Helm chart's templates from the objects of `gpulint webhook manifests`, so that both only differ in
//! the values that the chart leaves open.
//!
//! A template is the YAML of an object with edits: a value or a block of template text at a JSON Pointer. Names are
//! replaced by generating the objects for an [`Install`] whose name is a template expression. `_helpers.tpl` and files
//! that only the chart has (monitoring, cert-manager, notes, the schema of the values) are written by hand. The
//! chart's list of kinds, against which its `excludeKinds` is checked, comes from the rule table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{Install, objects, webhook_configurations};
use crate::kinds;
use crate::kinds::{Importance, importance};

/// The position of the text of an edit, relative to the field or item of its JSON Pointer.
#[derive(Clone, Copy)]
enum Place {
    Before,
    /// The text replaces the value.
    Instead,
    After,
}
use Place::{After, Before, Instead};

/// `{indent}` in the text is replaced by the indentation of the content of the edited place, `{here}` by that of the
/// place.
type Edit<'a> = (Place, &'a str, &'a str);

const WITHOUT_CERT_MANAGER: &str = "{{- if not .Values.certManager.enabled }}";
const END: &str = "{{- end }}";

const DEPLOYMENT: &[Edit<'_>] = &[
    (Instead, "/spec/replicas", "{{ .Values.replicas }}"),
    (Instead, "/spec/strategy/rollingUpdate/maxSurge", "{{ ternary 0 1 .Values.hostNetwork }}"),
    (Instead, "/spec/strategy/rollingUpdate/maxUnavailable", "{{ ternary 1 0 .Values.hostNetwork }}"),
    (
        After,
        "/spec/template/metadata/labels/app.kubernetes.io~1instance",
        "{{- with .Values.podLabels }}\n{{- toYaml . | nindent {here} }}\n{{- end }}",
    ),
    (
        After,
        "/spec/template/metadata/labels",
        "{{- with .Values.podAnnotations }}\nannotations:\n  {{- toYaml . | nindent {indent} }}\n{{- end }}",
    ),
    (
        After,
        "/spec/template/spec/automountServiceAccountToken",
        "{{- if .Values.hostNetwork }}\nhostNetwork: true\n{{- end }}\n\
         {{- with .Values.dnsPolicy | default (ternary \"ClusterFirstWithHostNet\" \"\" .Values.hostNetwork) }}\n\
         dnsPolicy: {{ . }}\n{{- end }}\n\
         {{- with .Values.imagePullSecrets }}\nimagePullSecrets:\n  {{- toYaml . | nindent {indent} }}\n{{- end }}",
    ),
    (Before, "/spec/template/spec/priorityClassName", "{{- with .Values.priorityClassName }}"),
    (Instead, "/spec/template/spec/priorityClassName", "{{ . }}"),
    (After, "/spec/template/spec/priorityClassName", END),
    (
        After,
        "/spec/template/spec/terminationGracePeriodSeconds",
        "{{- with .Values.nodeSelector }}\nnodeSelector:\n  {{- toYaml . | nindent {indent} }}\n{{- end }}\n\
         {{- with .Values.tolerations }}\ntolerations:\n  {{- toYaml . | nindent {indent} }}\n{{- end }}",
    ),
    (
        Before,
        "/spec/template/spec/affinity",
        "{{- if .Values.affinity }}\naffinity:\n  {{- toYaml .Values.affinity | nindent {indent} }}\n\
         {{- else if not .Values.karpenterNodes }}",
    ),
    (After, "/spec/template/spec/affinity", END),
    (
        Instead,
        "/spec/template/spec/containers/0/image",
        "{{ printf \"%s:%s\" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}",
    ),
    (
        After,
        "/spec/template/spec/containers/0/image",
        "{{- with .Values.image.pullPolicy }}\nimagePullPolicy: {{ . }}\n{{- end }}\n\
         {{- with .Values.extraEnv }}\nenv:\n  {{- toYaml . | nindent {indent} }}\n{{- end }}",
    ),
    (Instead, "/spec/template/spec/containers/0/args/2", "--listen=0.0.0.0:{{ .Values.port }}"),
    (Instead, "/spec/template/spec/containers/0/args/3", "--operations=0.0.0.0:{{ .Values.operationsPort }}"),
    (Instead, "/spec/template/spec/containers/0/args/7", "--timeout={{ .Values.timeoutSeconds }}"),
    (
        After,
        "/spec/template/spec/containers/0/args/8",
        "{{- if .Values.events }}\n\
         - --events\n\
         {{- end }}\n\
         {{- if .Values.certManager.enabled }}\n\
         - --tls-cert=/etc/gpulint-tls/tls.crt\n\
         - --tls-key=/etc/gpulint-tls/tls.key\n\
         {{- end }}\n\
         {{- range .Values.extraArgs }}\n\
         - {{ . | quote }}\n\
         {{- end }}",
    ),
    (Instead, "/spec/template/spec/containers/0/ports/0/containerPort", "{{ .Values.port }}"),
    (Instead, "/spec/template/spec/containers/0/ports/1/containerPort", "{{ .Values.operationsPort }}"),
    (
        Instead,
        "/spec/template/spec/containers/0/livenessProbe/periodSeconds",
        "{{ .Values.probes.liveness.periodSeconds }}",
    ),
    (
        Instead,
        "/spec/template/spec/containers/0/livenessProbe/timeoutSeconds",
        "{{ .Values.probes.liveness.timeoutSeconds }}",
    ),
    (
        Instead,
        "/spec/template/spec/containers/0/livenessProbe/failureThreshold",
        "{{ .Values.probes.liveness.failureThreshold }}",
    ),
    (
        Instead,
        "/spec/template/spec/containers/0/readinessProbe/periodSeconds",
        "{{ .Values.probes.readiness.periodSeconds }}",
    ),
    (
        Instead,
        "/spec/template/spec/containers/0/readinessProbe/timeoutSeconds",
        "{{ .Values.probes.readiness.timeoutSeconds }}",
    ),
    (
        Instead,
        "/spec/template/spec/containers/0/readinessProbe/failureThreshold",
        "{{ .Values.probes.readiness.failureThreshold }}",
    ),
    (
        Instead,
        "/spec/template/spec/containers/0/resources",
        "{{- toYaml .Values.resources | nindent {indent} }}",
    ),
    (
        After,
        "/spec/template/spec/containers/0/volumeMounts/0",
        "{{- if .Values.certManager.enabled }}\n\
         - name: tls\n  mountPath: /etc/gpulint-tls\n  readOnly: true\n\
         {{- end }}\n\
         {{- with .Values.extraVolumeMounts }}\n{{- toYaml . | nindent {here} }}\n{{- end }}",
    ),
    (
        After,
        "/spec/template/spec/volumes/0",
        "{{- if .Values.certManager.enabled }}\n\
         - name: tls\n  secret:\n    secretName: {{ .Release.Name }}-tls\n\
         {{- end }}\n\
         {{- with .Values.extraVolumes }}\n{{- toYaml . | nindent {here} }}\n{{- end }}",
    ),
];

const NETWORK_POLICY: &[Edit<'_>] = &[
    (Instead, "/spec/ingress/0/ports/0/port", "{{ .Values.port }}"),
    (
        After,
        "/spec/ingress/0/ports",
        "{{- with .Values.networkPolicy.admissionFrom }}\nfrom:\n  {{- toYaml . | nindent {indent} }}\n{{- end }}",
    ),
    (Instead, "/spec/ingress/1/ports/0/port", "{{ .Values.operationsPort }}"),
    (
        After,
        "/spec/ingress/1/ports",
        "{{- with .Values.networkPolicy.metricsFrom }}\nfrom:\n  {{- toYaml . | nindent {indent} }}\n{{- end }}",
    ),
];

const INJECT_CA: Edit<'_> = (
    After,
    "/metadata/labels",
    "{{- if .Values.certManager.enabled }}\n\
     annotations:\n  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ .Release.Name }}\n\
     {{- end }}",
);
/// The timeout of the first webhook; that of the second is fixed.
const TIMEOUT: Edit<'_> = (Instead, "/webhooks/0/timeoutSeconds", "{{ .Values.timeoutSeconds }}");
const SIDE_EFFECTS: Edit<'_> =
    (Instead, "/webhooks/0/sideEffects", "{{ ternary \"NoneOnDryRun\" \"None\" .Values.events }}");
const EXEMPT: Edit<'_> = (
    Instead,
    "/webhooks/0/namespaceSelector/matchExpressions/0/values",
    "{{ include \"gpulint.exemptNamespaces\" . }}",
);

/// A list of values as a CEL list, with the user names of service accounts.
const EXEMPT_ACCOUNTS: Edit<'_> = (
    Instead,
    "/webhooks/0/matchConditions/0/expression",
    "\"!(request.userInfo.username in [{{ range $at, $account := .Values.exemptAccounts }}{{ if $at }}, {{ end }}\
     'system:serviceaccount:{{ replace \"/\" \":\" $account }}'{{ end }}])\"",
);
const EXEMPT_GROUPS: Edit<'_> = (
    Instead,
    "/webhooks/0/matchConditions/1/expression",
    "\"!request.userInfo.groups.exists(g, g in [{{ range $at, $group := .Values.exemptGroups }}{{ if $at }}, {{ end }}\
     '{{ $group }}'{{ end }}])\"",
);

/// The webhooks of each configuration, in the ConfigMap.
const INSTALLED: [&str; 2] = [
    "{{ (include \"gpulint.ValidatingWebhookConfiguration\" . | fromYaml).webhooks | toJson | quote }}",
    "{{ (include \"gpulint.MutatingWebhookConfiguration\" . | fromYaml).webhooks | toJson | quote }}",
];

const VALIDATING: &[Edit<'_>] = &[
    INJECT_CA,
    (Instead, "/webhooks/0/failurePolicy", "{{ .Values.failurePolicy }}"),
    TIMEOUT,
    SIDE_EFFECTS,
    EXEMPT,
    EXEMPT_ACCOUNTS,
    EXEMPT_GROUPS,
    (
        Instead,
        "/webhooks/0/rules",
        "{{- include \"gpulint.rules\" (dict \"root\" . \"mutated\" false \"guarded\" true) | nindent {indent} }}",
    ),
];

const MUTATING: &[Edit<'_>] = &[
    INJECT_CA,
    TIMEOUT,
    SIDE_EFFECTS,
    EXEMPT,
    EXEMPT_ACCOUNTS,
    EXEMPT_GROUPS,
    (
        Instead,
        "/webhooks/0/rules",
        "{{- include \"gpulint.rules\" (dict \"root\" . \"mutated\" true \"guarded\" true) | nindent {indent} }}",
    ),
];

/// The edits of the first webhook for the second one, except for fixed values.
fn of_second(edits: &[Edit<'_>]) -> Vec<(Place, String, String)> {
    let is_fixed = |field: &str| matches!(field, "failurePolicy" | "timeoutSeconds");
    let of_first = edits.iter().filter_map(|(place, pointer, text)| {
        let field = pointer.strip_prefix("/webhooks/0/").filter(|field| !is_fixed(field))?;
        let text = text.replace("\"guarded\" true", "\"guarded\" false");
        Some((*place, format!("/webhooks/1/{field}"), text))
    });
    of_first.collect()
}

/// The generated files of the chart: path and text.
fn chart_files() -> Vec<(&'static str, String)> {
    let install = Install {
        name: "{{ .Release.Name }}".to_owned(),
        namespace: "{{ .Release.Namespace }}".to_owned(),
        ..Install::default()
    };
    let mut by_kind: BTreeMap<String, Value> = BTreeMap::new();
    for object in objects::all(&install).into_iter().chain(webhook_configurations(&install)) {
        by_kind.insert(object["kind"].as_str().unwrap().to_owned(), object);
    }
    // Helm stores a release in its namespace, so that the namespace is made before the release, with `--create-namespace`.
    by_kind.remove("Namespace");
    // The rules of the ClusterRole for watched kinds depend on the configuration. The last one is for the webhook
    // configurations, which are read to check that they are as installed. If cert-manager is enabled, it updates them.
    let rules = by_kind.get_mut("ClusterRole").and_then(|role| role["rules"].as_array_mut()).unwrap();
    rules.drain(..rules.len() - 1);
    // `After` first: an inserted item moves the one after it.
    let events = "{{- if .Values.events }}\n- apiGroups: [events.k8s.io]\n  resources: [events]\n  verbs: [create]\n{{- end }}";
    let cluster_role = [
        (After, "/rules/0/verbs/1", END),
        (Before, "/rules/0/verbs/1", WITHOUT_CERT_MANAGER),
        (After, "/rules/0", events),
        (Before, "/rules/0", "{{- include \"gpulint.watched\" . | nindent {here} }}"),
    ];
    let mut template = |kind: &str, edits: &[Edit<'_>]| edited(by_kind.remove(kind).unwrap(), edits);
    let rbac = [
        format!("{{{{- include \"gpulint.check\" . }}}}\n{}", template("ServiceAccount", &[])),
        template("ClusterRole", &cluster_role),
        // The Role is for the Secret with the certificates.
        format!("{}{WITHOUT_CERT_MANAGER}\n", template("ClusterRoleBinding", &[])),
        template("Role", &[]),
        format!("{}{END}\n", template("RoleBinding", &[])),
    ];
    let workload = [
        template(
            "ConfigMap",
            &[
                (Instead, "/data/gpulint.yaml", "{{ .Values.config | quote }}"),
                (Instead, "/data/ValidatingWebhookConfiguration.json", INSTALLED[0]),
                (Instead, "/data/MutatingWebhookConfiguration.json", INSTALLED[1]),
            ],
        ),
        template("Service", &[]),
        template("PodDisruptionBudget", &[]),
        template("Deployment", DEPLOYMENT),
    ];
    let network_policy = format!(
        "{{{{- if .Values.networkPolicy.enabled }}}}\n{}{END}\n",
        template("NetworkPolicy", NETWORK_POLICY)
    );
    let webhooks =
        [("ValidatingWebhookConfiguration", VALIDATING), ("MutatingWebhookConfiguration", MUTATING)];
    let webhooks = webhooks.map(|(kind, edits)| {
        let second = of_second(edits);
        let second = second.iter().map(|(place, pointer, text)| (*place, pointer.as_str(), text.as_str()));
        let edits: Vec<Edit<'_>> = edits.iter().copied().chain(second).collect();
        let text = template(kind, &edits);
        format!(
            "{{{{- define \"gpulint.{kind}\" }}}}\n{text}{END}\n{{{{- include \"gpulint.{kind}\" . }}}}\n"
        )
    });
    assert!(by_kind.is_empty(), "no template for {:?}", by_kind.keys());

    let generated = |text: &str| {
        format!(
            "{{{{- /* Generated: `UPDATE=1 cargo test -p gpulint-webhook chart` writes this file. */ -}}}}\n{text}"
        )
    };
    vec![
        ("files/config.yaml", config_file()),
        ("files/kinds.yaml", kinds_file()),
        ("templates/rbac.yaml", generated(&rbac.join("---\n"))),
        ("templates/network-policy.yaml", generated(&network_policy)),
        ("templates/workload.yaml", generated(&workload.join("---\n"))),
        ("templates/webhooks.yaml", generated(&webhooks.join("---\n"))),
    ]
}

/// The kinds that rules check, and those that are watched with the rules that read them, by API group.
fn kinds_file() -> String {
    let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for kind in kinds::checked().iter().filter(|kind| importance(**kind) != Importance::Exempt) {
        let resource = kind.info().unwrap();
        groups.entry(kind.group).or_default().push(json!({
            "kind": kind.kind, "resource": resource.plural, "mutated": kinds::is_mutated(*kind),
            "guarded": importance(*kind) == Importance::Guarded,
            "onRequest": importance(*kind) == Importance::OnRequest
        }));
    }
    let groups: Vec<Value> =
        groups.into_iter().map(|(group, checked)| json!({"group": group, "checked": checked})).collect();
    let mut watched: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (kind, rules) in kinds::readers() {
        let resource = kind.info().unwrap().plural;
        watched.entry(kind.group).or_default().push(json!({"resource": resource, "rules": rules}));
    }
    let watched: Vec<Value> =
        watched.into_iter().map(|(group, kinds)| json!({"group": group, "kinds": kinds})).collect();
    let table = json!({"groups": groups, "watched": watched});
    format!(
        "# Generated from the rule table: `UPDATE=1 cargo test -p gpulint-webhook chart` writes it.\n{}",
        serde_saphyr::to_string(&table).unwrap()
    )
}

/// The keys of `gpulint.yaml`, and of its `webhook`.
fn config_file() -> String {
    let schema = gpulint_rules::lint::config::schema(gpulint_rules::RULES);
    // The ConfigMap has one file, so that `extends` has none to read.
    let keys = |schema: &Value| -> Vec<String> {
        let keys = schema["properties"].as_object().unwrap().keys();
        keys.filter(|key| *key != "extends").cloned().collect()
    };
    let table = json!({"config": keys(&schema), "webhook": keys(&schema["properties"]["webhook"])});
    format!(
        "# Generated from the configuration's schema: `UPDATE=1 cargo test -p gpulint-webhook chart` writes it.\n{}",
        serde_saphyr::to_string(&table).unwrap()
    )
}

/// The YAML of an object with template text in some places.
fn edited(mut object: Value, edits: &[Edit<'_>]) -> String {
    let marker = |number: usize| format!("EDIT{number}EDIT");
    for (number, (place, pointer, _)) in edits.iter().enumerate() {
        mark(&mut object, *place, pointer, marker(number));
    }
    let mut out = String::new();
    let mut used = 0;
    for line in serde_saphyr::to_string(&object).unwrap().lines() {
        let found = (0..edits.len()).find_map(|number| Some((number, line.find(&marker(number))?)));
        let Some((number, at)) = found else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        used += 1;
        let indent = line.len() - line.trim_start().len();
        let text = edits[number].2.replace("{indent}", &(indent + 2).to_string());
        let text = text.replace("{here}", &indent.to_string());
        match edits[number].0 {
            Instead if !text.starts_with("{{-") => writeln!(out, "{}{text}", &line[..at]).unwrap(),
            Instead => writeln!(out, "{}\n{:2$}{text}", line[..at].trim_end(), "", indent + 2).unwrap(),
            _ => text.lines().for_each(|text| writeln!(out, "{:indent$}{text}", "").unwrap()),
        }
    }
    assert_eq!(used, edits.len(), "{object:#}");
    out
}

/// Puts a marker next to or instead of a value. Panics if the pointer does not exist.
fn mark(object: &mut Value, place: Place, pointer: &str, marker: String) {
    let (parent, child) = pointer.rsplit_once('/').unwrap();
    let child = &child.replace("~1", "/");
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            assert!(map.contains_key(child), "{pointer}");
            for (key, value) in std::mem::take(map) {
                let here = key == *child;
                match place {
                    Before if here => {
                        map.insert(marker.clone(), Value::Null);
                        map.insert(key, value);
                    }
                    Instead if here => drop(map.insert(key, marker.clone().into())),
                    After if here => {
                        map.insert(key, value);
                        map.insert(marker.clone(), Value::Null);
                    }
                    _ => drop(map.insert(key, value)),
                }
            }
        }
        Some(Value::Array(items)) => {
            let at: usize = child.parse().unwrap();
            assert!(at < items.len(), "{pointer}");
            match place {
                Before => items.insert(at, marker.into()),
                Instead => items[at] = marker.into(),
                After => items.insert(at + 1, marker.into()),
            }
        }
        _ => panic!("{pointer}"),
    }
}

#[test]
fn the_chart_is_what_the_manifests_say() {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("chart");
    for (path, text) in chart_files() {
        let path = chart.join(path);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "{} is old: UPDATE=1 cargo test writes it", path.display());
    }
}

/// The default values of the templates are those of the manifests.
#[test]
fn the_values_are_the_defaults_of_the_manifests() {
    let values: Value = serde_yaml::from_str(include_str!("../../chart/values.yaml")).unwrap();
    let install = Install::default();
    let all = objects::all(&install);
    let deployment = all.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(values["replicas"], deployment["spec"]["replicas"]);
    assert_eq!(values["priorityClassName"], pod["priorityClassName"]);
    assert_eq!(values["resources"], pod["containers"][0]["resources"]);
    assert_eq!(values["karpenterNodes"], json!(install.karpenter_nodes));
    assert_eq!(values["hostNetwork"], json!(install.host_network));
    assert_eq!(values["port"], json!(install.port));
    assert_eq!(values["operationsPort"], json!(install.operations_port));
    assert_eq!(values["events"], json!(install.events));
    for probe in ["liveness", "readiness"] {
        let mut found = pod["containers"][0][format!("{probe}Probe")].clone();
        found.as_object_mut().unwrap().remove("httpGet");
        assert_eq!(values["probes"][probe], found);
    }
    assert_eq!(values["config"], json!(install.config));
    assert_eq!(values["timeoutSeconds"], json!(install.timeout_seconds));
    assert_eq!(values["exemptNamespaces"], json!(install.exempt_namespaces));
    assert_eq!(values["exemptAccounts"], json!(install.exempt_accounts));
    assert_eq!(values["exemptGroups"], json!(install.exempt_groups));
    assert_eq!(values["excludeKinds"], json!(install.exclude_kinds));
    assert_eq!(values["includeKinds"], json!(install.include_kinds));
    assert_eq!(values["failurePolicy"], json!("Ignore"));
    let image = format!("{}:{}", values["image"]["repository"].as_str().unwrap(), env!("CARGO_PKG_VERSION"));
    assert_eq!(install.image, image);
}

#[test]
fn the_chart_has_the_version_of_the_crate() {
    let chart = include_str!("../../chart/Chart.yaml");
    for key in ["version", "appVersion"] {
        let line = format!("\n{key}: {}\n", env!("CARGO_PKG_VERSION"));
        assert!(chart.contains(&line), "{key}");
    }
}
