//! A value is still a placeholder that nothing fills in.
//!
//! # Why
//! `role: KarpenterNodeRole-${CLUSTER_NAME}` is a text like any other to the API server. Where the
//! tool that fills it in does not run, or does not know the name, the EC2NodeClass never finds its
//! role, its subnets or its image, and no node of the pool ever starts. What a placeholder hides is
//! not checked either: the other rules take the value as unknown. It is information, because the tool
//! may well run: a script, a pipeline, or the reader of a tutorial. A file has one finding for all its
//! placeholders, at the first one that other rules would have looked at: requirements, limits, budgets
//! and replica counts. What a kustomization writes into the images of several workloads is reported once.
//!
//! # Fix
//! Check what the tool writes: run `kustomize build`, `helm template` or `envsubst` first, and
//! gpulint on its output. Otherwise write the value.
//!
//! Placeholders that something in the input fills in are not reported: variables and replacements
//! of a kustomization, `postBuild` of a Flux Kustomization for its path and its components, and
//! `${X}` where a Terraform file, a script or a README beside the manifests, or up to two folders
//! above, calls `templatefile` or `envsubst`, where one elsewhere does so and names the file, and
//! where a comment of the file, or one that names it in a file beside it, speaks of `envsubst`; `${X:-a}` and
//! `${X:=a}`, and with them every `${X}` of the object; `{{ x }}` in templates of cookiecutter, copier and
//! Ansible, and where five files around have blocks of a template language, such as `{{ if … }}`. Nor are
//! those that a script of the repository replaces with `sed`, such as `RUN_NUMBER` with `s/RUN_NUMBER/…/`, and
//! those of a file that is a template by its name or that of a folder: `pool.tmpl.yaml`, `pool-template.yaml`,
//! `templates/`, `skeleton/`, `{{cookiecutter.name}}/`. `$G`, `$SYS` and the like of NATS and `$Default` of
//! Azure Event Hubs are names.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: embedder}
//!  spec:
//! -  scaleTargetRef:
//! -    name: ${DEPLOYMENT} # <-
//! +  scaleTargetRef: {name: embedder}
//!    minReplicaCount: 1
//!    maxReplicaCount: 4
//!    triggers:
//!      - type: rabbitmq
//!        metadata:
//!          queueName: work
//!          mode: QueueLength
//!          value: "20"
//!          hostFromEnv: RABBIT
//! ```
//!
//! # References
//! - <https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/>
//! - <https://fluxcd.io/flux/components/kustomize/kustomizations/#post-build-variable-substitution>

use crate::cluster::together::routes;
use crate::kind::SCHEMA_KINDS;
use crate::lint::finding::{ALSO_HERE, MAX_MERGED_RELATED, Merge};
use crate::object::Origin;
use crate::rules::manifest::message_parts::quoted_value;
use crate::rules::manifest::stand_in::{comment_for_value, stand_in};
use crate::rules::manifest_purpose::is_template;
use crate::rules::precedence::matches;
use crate::rules::prelude::*;
use crate::schema;
use crate::tree::node::Shape;
use crate::tree::placeholder::find_placeholder;

pub(crate) static RULE: Rule = Rule {
    id: "placeholder-unexpanded",
    kinds: SCHEMA_KINDS,
    reads: WORKLOAD_KINDS,
    docs: docs(include_str!("placeholder_unexpanded.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Manifest)
};

/// Fields in which such text is common: shell scripts and queries, environment variables that the kubelet
/// expands, configuration of other programs, descriptions.
const ORDINARY: &[&str] = &[
    "userData",
    "command",
    "args",
    "env",
    "annotations",
    "lifecycle",
    "exec",
    "httpHeaders",
    "query",
    "formula",
    "subPathExpr",
    "parameters",
    "cel",
    "matchConditions",
    "expression",
    "context",
    "status",
    "managedFields",
];

/// Fields whose value decides whether a rule of severity error reports the object.
const DECISIVE: &[&str] = &[
    "spec/template/spec/requirements/**",
    "spec/requirements/**",
    "spec/limits/*",
    "spec/disruption/**",
    "spec/template/spec/taints/**",
    "spec/template/spec/expireAfter",
    "spec/template/spec/terminationGracePeriod",
    "spec/amiFamily",
    "spec/amiSelectorTerms/*/alias",
    "spec/kubelet/**",
    "spec/minAvailable",
    "spec/maxUnavailable",
    "spec/minReplicas",
    "spec/maxReplicas",
    "spec/minReplicaCount",
    "spec/maxReplicaCount",
    "spec/idleReplicaCount",
];

/// A placeholder, its node, and whether it hides a value that a rule of severity error would check.
struct Found<'a> {
    text: String,
    node: Node<'a>,
    decisive: bool,
}

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // Operators fill in templates of their own, such as `{{.Name}}` in the arguments of a ServingRuntime.
    if schema::operator_of(object, ctx.definitions()).is_some() || is_template(object) {
        return None;
    }
    let mut found = Vec::new();
    if object.root().has_unknown() {
        collect(&object.root(), &mut found);
    }
    let violations = schema::violations(object, ctx.definitions());
    for violation in violations.iter() {
        let node = object.root().at(&violation.pointer);
        let comment = || comment_for_value(object, &node).map(str::to_owned);
        if let Some(text) = stand_in(violation, &node, object, &violations).or_else(comment) {
            found.push(Found { text, node, decisive: true });
        }
    }
    if !found.is_empty()
        && let Some(origin) = object.origin()
    {
        let (kind, name) = (object.kind(), object.name());
        found.retain(|one| {
            !origin.source.is_filled(&one.text, kind, name) && !is_in_image_that_is_set(origin, &one.node)
        });
    }
    // A kustomization sets the namespace.
    if routes(object).iter().any(|route| route.namespace.is_some()) {
        let namespace = object.path(&["metadata", "namespace"]).pointer();
        found.retain(|one| one.node.pointer() != namespace);
    }
    found.retain(|one| !is_told_before(object, one, ctx));
    // Only envsubst and Flux read a default in braces, so the author runs one of them, which expands the others as well.
    if found.iter().any(|one| has_default(&one.text)) {
        found.retain(|one| !one.text.starts_with("${"));
    }
    let first = found.iter().find(|one| one.decisive).or(found.first())?;
    let mut merge = Merge::new("", quoted_value(&first.text), message);
    let more = || found.iter().filter(|one| !std::ptr::eq(*one, first));
    for one in more() {
        merge.add(&quoted_value(&one.text), 1);
    }
    let finding = ctx.report(&first.node, merge.message());
    // Which kustomization sets an image differs between sets, for which one finding is enough.
    let is_set = first.node.change().is_some();
    finding.help(if is_set { WHERE_IT_IS_SET } else { next_step(&first.text) });
    finding.merges(merge);
    for one in more().take(MAX_MERGED_RELATED) {
        finding.related(object, &one.node, ALSO_HERE);
    }
    None
}

/// Whether a kustomization sets the tag of the image that a placeholder is part of.
fn is_in_image_that_is_set(origin: &Origin, node: &Node<'_>) -> bool {
    let image =
        node.raw_text().filter(|_| node.pointer().steps().last().is_some_and(|field| field == "image"));
    image.is_some_and(|image| {
        let name = image.split(['@', '<', '$', '{']).next().unwrap_or_default();
        let tag = name.rfind(':').filter(|colon| !name[*colon..].contains('/'));
        origin.source.sets_tag_of(tag.map_or(name, |colon| &name[..colon]))
    })
}

const WHERE_IT_IS_SET: &str =
    "write it in `images` of the kustomization, or of Flux or Argo CD, which set the image";

/// Whether a kustomization writes a placeholder into the images of several workloads, and another one is the first of them: one finding
/// is about what the kustomization has.
fn is_told_before(object: &Object, one: &Found<'_>, ctx: &Context<'_>) -> bool {
    let Some(change) = one.node.change() else { return false };
    let has_it = |container: Node<'_>| {
        let image = container.get("image");
        image.change().is_some_and(|other| other.by == change.by)
            && image.raw_text().is_some_and(|text| text.contains(&one.text))
    };
    let mut workloads = WORKLOAD_KINDS.iter().flat_map(|kind| ctx.cluster().of(*kind));
    let first =
        workloads.find(|other| templates(other).iter().flat_map(Template::all_containers).any(has_it));
    first.is_some_and(|first| !first.is_same_resource(object))
}

fn message(merge: &Merge) -> String {
    let places = match merge.places() {
        0 | 1 => String::new(),
        n => format!(" ({n} places)"),
    };
    let one = merge.subject();
    match merge.others() {
        0 => format!("{one} looks like an unexpanded placeholder{places}"),
        1 => format!("{one} and 1 other look like unexpanded placeholders{places}"),
        n => format!("{one} and {n} others look like unexpanded placeholders{places}"),
    }
}

/// Help for a placeholder, by the tool that uses its syntax.
fn next_step(text: &str) -> &'static str {
    if text.starts_with("{{") {
        "render the template first, as with `helm template`, and check the output; or write the value"
    } else if text.starts_with("$(") {
        "run `kustomize build` first and check its output, or write the value"
    } else if text.starts_with('$') {
        "run the tool that fills it in first, such as `envsubst`, and check the output; or write the value"
    } else if text.starts_with('{') {
        "write the value; an unquoted `{…}` is a map in YAML"
    } else {
        "write the value that belongs here"
    }
}

/// Whether it is a placeholder with a default of its own: `${X:-a}`, `${X:=a}`, `${X-a}`, `${X=a}`.
fn has_default(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("${") else { return false };
    let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
    let rest = inner[end..].trim_start_matches(':');
    end > 0 && rest.starts_with(['-', '='])
}

/// The placeholders below a node with their nodes, in document order.
fn collect<'a>(node: &Node<'a>, out: &mut Vec<Found<'a>>) {
    match node.shape() {
        Shape::Absent => {}
        Shape::Scalar => {
            // A text of several lines is a script or an embedded file.
            let text = if node.is_unknown() { node.raw_text() } else { None };
            if let Some(text) = text.filter(|text| !text.contains('\n')) {
                let text = find_placeholder(text).unwrap_or(text).to_owned();
                // Who writes a syntax of its own has a program of its own for it.
                if !text.starts_with(OWN_SYNTAX) {
                    out.push(Found { text, node: node.clone(), decisive: is_decisive(node) });
                }
            }
        }
        Shape::Sequence => node.items().for_each(|item| collect(&item, out)),
        Shape::Mapping => {
            for (key, child) in node.entries() {
                if !ORDINARY.contains(&key) && !is_placeholder(key) {
                    collect(&child, out);
                }
            }
        }
    }
}

/// The beginnings of placeholders of no tool that is known: `[[ x ]]`, `@@X@@`, `%X%`.
const OWN_SYNTAX: [char; 3] = ['[', '@', '%'];

fn is_decisive(node: &Node<'_>) -> bool {
    let pointer = node.pointer();
    let steps = pointer.steps();
    let gpus = matches("**/resources/*/*", steps) && steps.last().is_some_and(|last| is_accelerator(last));
    gpus || DECISIVE.iter().any(|path| matches(path, steps))
}
