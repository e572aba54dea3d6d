//! The engine of gpulint: reads manifests, checks them, reports findings.
//!
//! ```text
//! bytes ─► Source ─► Document (Tree: values + spans) ─► Object ─► Cluster
//!                                                          │        │
//!                                                          ▼        ▼
//!                                         Engine::check_object(object, cluster)
//!                                                          │
//!                                                          ▼
//!                                  Vec<Finding>   object + pointer + message + fix
//! ```
//!
//! It does no I/O, asks no clock and no environment, and never panics on any input. The command
//! line and the webhook are its two callers; both give the same findings for the same objects.

pub mod catalog;
mod cel;
pub mod cluster;
pub mod file;
pub mod fit;
pub mod karpenter;
pub mod keda;
pub mod kind;
pub mod lint;
pub mod migration;
mod object;
pub mod plan;
mod promql;
pub mod rules;
mod schema;
pub mod workload;
pub mod workspace;

pub use gpulint_reader::{facts, platform, source, steps, tree};

pub use cluster::Cluster;
pub use cluster::objects::Lookup;
pub use cluster::sets::{Bond, ManifestSet, Membership, Partition};
pub use cluster::versions::{
    CHART_LISTS, Fact, K3S_CHARTS, OutsideFact, ShownVersion, TerraformFile, TerraformValues, VersionPlace,
    charts_of, charts_of_template, facts_of_script, facts_of_text, fill_versions, minor_of, pins_of,
    unread_objects,
};
pub use file::File;
pub use kind::Kind;
pub use kind::api_versions::current_version;
pub use kind::definitions::{CustomResourceDefinitions, ServedSchema};
pub use lint::authority::Authority;
pub use lint::context::Context;
pub use lint::engine::Engine;
pub use lint::finding::{Finding, Location, Related, Rendered, Severity};
pub use lint::fix::{Fix, FixError, Operation, Safety};
pub use lint::identity::{Identity, fingerprints, fingerprints_at};
pub use lint::recorded::RulePanic;
pub use lint::report::{CheckReport, SuppressedFinding};
pub use lint::rule::{Check, Group, MANUAL, Param, ParamDefault, Rule, Tag, docs};
pub use lint::run::{FilledSet, RunInput, check_run, fill_sets};
pub use lint::settings::Settings;
pub use object::{GroupVersionKind, Object, ObjectId, ObjectKey, Origin};
pub use platform::{Platform, Product, Version};
pub use rules::{RULES, find as find_rule};
pub use schema::outline::{Outline, OutlineShape, field_meaning};
pub use tree::json::Draft;
pub use tree::node::{Node, Shape};
pub use tree::pointer::Pointer;
pub use workload::charts::{application_sources, charts_with_accelerators, is_own_cluster};
pub use workspace::{FileChange, Workspace};
