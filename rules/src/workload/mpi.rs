//! The ranks that `mpirun` starts in the pods of an MPIJob, against the slots and the GPUs of its workers.
//!
//! Sources, read in November 2026: the MPI Operator's hostfile (`newConfigMap`: each worker, and with
//! `runLauncherAsWorker` the launcher, has `slotsPerWorker` slots), Open MPI's `mpirun(1)`, and Hydra's, of MPICH and
//! Intel MPI, which starts at the first host again where the ranks are more than the slots.

use crate::object::Object;
use crate::tree::node::Node;
use crate::workload::command::{
    OptionValue, Word, base_name, command_at, may_have_more_options, option, words,
};
use crate::workload::devices::Devices;
use crate::workload::launcher::Launch;
use crate::workload::processes::{MPIRUN, Processes};

/// Options of `mpirun` with which other places than the slots decide, or several ranks share one.
const OTHER_PLACES: [&str; 15] = [
    "oversubscribe",
    "hostfile",
    "machinefile",
    "host",
    "hosts",
    "H",
    "f",
    "rankfile",
    "npernode",
    "N",
    "ppn",
    "perhost",
    "ppr",
    "app",
    "configfile",
];

/// Beginnings of variables with the same effect as such options.
const PLACE_VARIABLES: [&str; 5] =
    ["OMPI_MCA_rmaps", "PRTE_MCA_rmaps", "OMPI_MCA_orte_default_hostfile", "I_MPI_PERHOST", "HYDRA_"];

/// The ranks that the launcher of an MPIJob starts, and the slots for them.
struct Ranks<'a> {
    /// The words of `mpirun` and of what it runs.
    own: Vec<Word<'a>>,
    is_open_mpi: bool,
    /// The field `slotsPerWorker`.
    field: Node<'a>,
    slots: i64,
    /// The slots of all workers.
    all: i64,
    ranks: OptionValue<'a>,
    stated: i64,
}

fn ranks_of(object: &Object) -> Option<Ranks<'_>> {
    let spec = object.get("spec");
    let specs = spec.get("mpiReplicaSpecs");
    let launcher = specs.path(&["Launcher", "template", "spec", "containers"]).items().next()?;
    let words = words(&launcher);
    let at = words
        .iter()
        .position(|word| matches!(base_name(&word.text), "mpirun" | "mpiexec" | "mpiexec.hydra"))?;
    let own = command_at(&words, at).to_vec();
    if Launch::of(&launcher).is_some() || may_have_more_options(&own) || has_other_places(&launcher, &own) {
        return None;
    }
    let field = spec.get("slotsPerWorker");
    let slots = field.int_or(1)?;
    let as_worker = spec.get("runLauncherAsWorker");
    if as_worker.is_unknown() || spec.get("mpiImplementation").is_unknown() {
        return None;
    }
    let hosts = specs.path(&["Worker", "replicas"]).int_or(1)? + i64::from(as_worker.bool() == Some(true));
    let all = slots.checked_mul(hosts)?;
    let is_open_mpi = matches!(spec.get("mpiImplementation").text(), None | Some("OpenMPI"));
    let ranks = option(&own, &["np", "n", "c"]);
    let stated = match ranks {
        // Without a number, Open MPI fills the slots.
        OptionValue::Absent if !is_open_mpi => return None,
        _ => ranks.int_or(all)?,
    };
    Some(Ranks { own, is_open_mpi, field, slots, all, ranks, stated })
}

/// More ranks than the workers of an MPIJob have slots, whatever devices they have: Open MPI starts none.
pub(crate) fn ranks_above_slots(object: &Object) -> Option<Processes<'_>> {
    let Ranks { is_open_mpi, field, all, ranks, stated, .. } = ranks_of(object)?;
    let place = if field.is_set() { field } else { object.path(&["spec", "mpiReplicaSpecs", "Worker"]) };
    (is_open_mpi && stated > all).then(|| Processes {
        program: MPIRUN,
        used: stated,
        node: ranks.node(),
        has: Devices { count: all, node: place },
        holder: "slots of its workers",
        is_strict: true,
        idles: false,
    })
}

/// The ranks on a worker: its slots, each for one rank of `mpirun`.
pub(super) fn processes_of<'a>(object: &'a Object, has: Devices<'a>) -> Option<Processes<'a>> {
    let Ranks { own, is_open_mpi, field, slots, all, ranks, stated } = ranks_of(object)?;
    let of_job = |used, node, has, holder| Processes {
        program: MPIRUN,
        used,
        node,
        has,
        holder,
        is_strict: false,
        idles: false,
    };
    // A shell or a program that nobody knows may start more processes, and several ranks may share a GPU on purpose.
    if stated > all || !has_one_gpu_a_rank(&own) {
        return None;
    }
    // Open MPI fills the slots of one worker after the other.
    if is_open_mpi && slots == has.count && stated <= all - slots {
        let total = Devices { count: all, node: has.node };
        return Some(Processes {
            idles: true,
            ..of_job(stated, ranks.node(), total, "the group of its workers")
        });
    }
    // Fewer ranks than slots are meant to leave some free.
    let node = field.is_set().then_some(field);
    Some(Processes { idles: stated == all, ..of_job(slots, node, has, "its container") })
}

/// The ranks on a node of a TrainJob with a runtime for MPI: the number is that of the slots (`plugins/mpi` of Kubeflow Trainer 2.0 to
/// 2.2). From 2.1 on, a runtime with one slot has as many as the node has GPUs.
pub(super) fn processes_of_train_job<'a>(
    trainer: &Node<'a>,
    reference: Node<'a>,
    runtime: &Object,
    has: Devices<'a>,
) -> Option<Processes<'a>> {
    let own = trainer.get("numProcPerNode");
    let of_runtime = runtime.path(&["spec", "mlPolicy", "mpi", "numProcPerNode"]);
    let (used, node) = match own.is_set() {
        true => (own.int()?, own),
        false => (of_runtime.int().filter(|slots| *slots > 1)?, reference),
    };
    let words = words(trainer);
    let at = words.iter().position(|word| base_name(&word.text) == "mpirun")?;
    let command = command_at(&words, at);
    let places = has_other_places(trainer, command)
        || !matches!(option(command, &["np", "n", "c"]), OptionValue::Absent);
    if places || may_have_more_options(command) || !has_one_gpu_a_rank(command) {
        return None;
    }
    Some(Processes {
        program: MPIRUN,
        used,
        node: Some(node),
        has,
        holder: "its node",
        is_strict: false,
        idles: true,
    })
}

/// Whether anything else than the number of slots decides where the ranks run.
fn has_other_places(launcher: &Node<'_>, own: &[Word<'_>]) -> bool {
    // By slot is the default.
    let by_map = match option(own, &["map-by"]) {
        OptionValue::Absent => false,
        OptionValue::Text(unit, _) => unit != "slot",
        OptionValue::Unknown => true,
    };
    let by_option = by_map
        || !matches!(option(own, &OTHER_PLACES), OptionValue::Absent)
        || own.iter().any(|word| word.text.contains("rmaps"));
    let is_place = |name: &str| PLACE_VARIABLES.iter().any(|prefix| name.starts_with(prefix));
    by_option
        || launcher.get("envFrom").items().next().is_some()
        || launcher.get("env").items().any(|variable| variable.get("name").raw_text().is_some_and(is_place))
}

/// Whether each rank is a program that takes one GPU: Python without a launcher before it, or a test of NCCL.
fn has_one_gpu_a_rank(own: &[Word<'_>]) -> bool {
    let is = |known: fn(&str) -> bool| own.iter().position(|word| known(base_name(&word.text)));
    let starter = is(|name| {
        matches!(name, "sh" | "bash" | "torchrun" | "deepspeed" | "accelerate" | "ray")
            || name.ends_with(".sh")
    });
    let program = is(|name| name.starts_with("python") || name.ends_with("_perf"));
    // Tests of NCCL may have several GPUs in a rank.
    let is_single = |names: [&str; 2]| option(own, &names).int_or(1) == Some(1);
    let has_one = |at: usize| {
        !base_name(&own[at].text).ends_with("_perf")
            || is_single(["g", "ngpus"]) && is_single(["t", "nthreads"])
    };
    starter.is_none() && program.is_some_and(has_one)
}
