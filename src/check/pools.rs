//! The NodePools of a run, for the formats that show them beside the findings.

use gpulint_rules::fit::Situation;
use gpulint_rules::{Platform, fill_sets};
use serde_json::Value;

use crate::batch::Batch;
use crate::report::PoolsAnswer;
use crate::terminal::print_note;

/// Kinds of workloads. They are counted to estimate the time for an overview.
const WORKLOADS: [&str; 7] =
    ["CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"];
/// Maximum of NodePools times workloads of a set in an overview beside a report: a larger one would take much
/// longer than the report.
const MAX_PAIRS: usize = 100_000;

/// The overview of the files of a run, as `gpulint pools --format json` prints it, without sets that are too
/// large.
pub(super) fn of_run(batch: &Batch<'_>, platform: &Platform) -> Value {
    let mut overviews = Vec::new();
    for set in fill_sets(&batch.run_inputs(), &batch.sets.partition) {
        let count =
            |is: &dyn Fn(&str) -> bool| set.cluster.objects().iter().filter(|one| is(&one.id().kind)).count();
        if count(&|kind| kind == "NodePool") * count(&|kind| WORKLOADS.contains(&kind)) > MAX_PAIRS {
            print_note("note: too many NodePools and workloads for the page; `gpulint pools` shows them");
            continue;
        }
        let situation = Situation::read(&set.cluster, platform, None);
        if !situation.is_empty() {
            overviews.push((set.name.clone(), situation.overview(&set.cluster, platform)));
        }
    }
    PoolsAnswer { overviews, capacities: None, platform }.json()
}
