//! EC2NodeClasses: what is refused, and what the nodes then are.

use crate::lint::authority::Authority;
use crate::lint::context::Context;
use crate::lint::finding::Severity;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;

pub(crate) mod block_device_invalid;
pub(crate) mod efa_public_ip;
pub(crate) mod gpu_ami_mismatch;
pub(crate) mod gpu_root_volume_small;
pub(crate) mod imds_exposed;
pub(crate) mod instance_store_unused;
pub(crate) mod node_class_ami_terms;
pub(crate) mod node_class_identity;
pub(crate) mod node_class_kubelet;
pub(crate) mod node_class_restricted_tag;
pub(crate) mod node_class_selector_term;
pub(crate) mod user_data_suspect;

/// Whether what is written in a selector term is all that it will hold.
fn is_known(term: &Node<'_>) -> bool {
    term.is_mapping() && !term.entries().iter().any(|(key, _)| is_placeholder(key))
}

/// The tags of a selector term: empty keys and values are refused, and no tag at all is no filter.
fn tags(term: &Node<'_>, all: Option<&str>, ctx: &mut Context<'_>) {
    let tags = term.get("tags");
    let entries = tags.entries();
    for (key, value) in &entries {
        let what = match (key.is_empty(), value.text()) {
            (true, _) => "key",
            (false, Some("")) => "value",
            _ => continue,
        };
        let finding = ctx.report(value, format!("a tag with an empty {what} is refused"));
        finding
            .rejected_by(Some(Authority::ApiServer))
            .help("write key and value; the value `*` stands for any");
        if key.is_empty() {
            finding.at_key();
        }
    }
    if let Some(all) = all
        && tags.is_mapping()
        && entries.is_empty()
    {
        ctx.report(&tags, format!("`tags: {{}}` filters nothing: it selects {all}"))
            .severity(Severity::Warning)
            .help("name at least one tag");
    }
}
