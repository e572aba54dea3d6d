//! EC2NodeClasses: what is rejected, and what the nodes then are.

pub(crate) mod ami_alias_invalid;
pub(crate) mod ami_family_mismatch;
pub(crate) mod ami_name_mismatch;
pub(crate) mod ami_name_spans_versions;
pub(crate) mod ami_unsupported_by_eks;
pub(crate) mod auto_mode_class_field;
pub(crate) mod auto_mode_class_invalid;
pub(crate) mod auto_mode_reservation_scope;
pub(crate) mod aws_auth_entry_unmatched;
pub(crate) mod block_device_incomplete;
pub(crate) mod block_device_invalid;
pub(crate) mod cluster_dns_unanswered;
pub(crate) mod custom_family_without_user_data;
pub(crate) mod efa_driver_without_interface;
pub(crate) mod efa_public_ip;
pub(crate) mod eviction_soft_unpaired;
pub(crate) mod eviction_thresholds_crossed;
pub(crate) mod gpu_ami_mismatch;
pub(crate) mod gpu_root_volume_small;
pub(crate) mod imds_exposed;
pub(crate) mod instance_store_unused;
pub(crate) mod kubelet_field_unsupported;
pub(crate) mod kubelet_in_user_data;
pub(crate) mod kubelet_reserves_nodes;
pub(crate) mod local_disks_set_up_twice;
pub(crate) mod max_pods_above_interfaces;
pub(crate) mod max_pods_too_few;
pub(crate) mod node_class_ami_terms;
pub(crate) mod node_class_identity;
pub(crate) mod node_class_kubelet;
pub(crate) mod node_class_restricted_tag;
pub(crate) mod node_class_selector_term;
pub(crate) mod pod_volume_unmapped;
pub(crate) mod root_volume_unencrypted;
pub(crate) mod subnet_terms_widen;
pub(crate) mod unregistered_taint_missing;
mod user_data_disks;
pub(crate) mod user_data_suspect;
mod user_data_text;
pub(crate) mod volume_outlives_node;
pub(crate) mod volume_performance_invalid;

use crate::karpenter::minors::has_open_kubelet;
use crate::lint::authority::Authority;
use crate::lint::context::Context;
use crate::lint::finding::Severity;
use crate::tree::node::Node;
use crate::tree::placeholder::is_placeholder;

fn is_known(term: &Node<'_>) -> bool {
    term.is_mapping() && !term.entries().iter().any(|(key, _)| is_placeholder(key))
}

/// The lines of a script that are neither empty nor comments.
fn significant_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The publishers of images for EKS: Amazon by its alias, EKS, Bottlerocket, Canonical and Microsoft's images of Amazon.
const PUBLISHERS: [&str; 5] = ["amazon", "602401143452", "092701018921", "099720109477", "801119661308"];

/// The name of an AMI term that selects public images. Images of the own account may have any names, and public images have no
/// tags that others can select.
fn public_name<'a>(term: &Node<'a>) -> Option<(Node<'a>, &'a str)> {
    let owner = term.get("owner");
    let public = !owner.is_set() || owner.string_or_number().is_some_and(|o| PUBLISHERS.contains(&&*o));
    let name = term.get("name");
    let text = name.text().filter(|_| public && !term.get("tags").is_set() && is_known(term))?;
    Some((name, text))
}

/// The component that rejects an invalid kubelet setting.
fn kubelet_authority(ctx: &Context<'_>) -> Option<Authority> {
    let open = has_open_kubelet(ctx.platform().karpenter);
    Some(if open { Authority::Karpenter } else { Authority::ApiServer })
}

/// The tags of a selector term: empty keys and values are rejected, and an empty map does not filter.
fn tags(term: &Node<'_>, all: Option<&str>, ctx: &mut Context<'_>) {
    let tags = term.get("tags");
    let entries = tags.entries();
    for (key, value) in &entries {
        let what = match (key.is_empty(), value.text()) {
            (true, _) => "key",
            (false, Some("")) => "value",
            _ => continue,
        };
        let finding = ctx.report(value, format!("a tag with an empty {what} is rejected"));
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
