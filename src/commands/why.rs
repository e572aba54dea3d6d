//! `gpulint why`: the NodePools that admit a pod, and the reasons why others do not.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use gpulint_rules::facts::suggest;
use gpulint_rules::fit::{Explanation, FitVerdict, Misfit, Room, Situation, workloads};
use gpulint_rules::source::Source;
use gpulint_rules::{Cluster, File, FilledSet, Kind, Object, Pointer};

use crate::args::{Color, WhyArgs};
use crate::error::CliError;
use crate::files::display_path;
use crate::output;
use crate::report::{WhyAnswer, WhyPod, position};
use crate::terminal::RenderOptions;

use super::loaded::Loaded;

/// Explains where the pods of a workload go. The exit code is 0 if all of them fit.
pub(crate) fn run(args: &WhyArgs, color: Color) -> Result<ExitCode, CliError> {
    let place = Target::parse(&args.pod);
    let mut paths = args.paths.clone();
    if let Target::File { path, .. } = &place
        && path.is_file()
    {
        paths.push(path.clone());
    }
    let mut loaded = Loaded::read(&args.set, &paths)?;
    let copies = match &place {
        Target::Stdin => vec![from_stdin(&mut loaded)?],
        other => find(other, &loaded, args.set.only.as_deref())?,
    };
    let settings = loaded.settings(copies.first())?;
    let mut around = Vec::new();
    for copy in &copies {
        let places = surroundings(&loaded, copy, args.set.only.as_deref())?;
        around.extend(places.into_iter().map(|place| (copy, place)));
    }
    let mut pods = Vec::new();
    let mut known: Vec<String> = Vec::new();
    let mut complete = true;
    let mut room: Option<(Room, i64)> = None;
    let mut waiting: Option<Misfit> = None;
    let first = around.first().map(|(_, place)| place.cluster.platform(&settings.platform).into_owned());
    let platform = first.unwrap_or_else(|| settings.platform.clone());
    for (copy, place) in around {
        let of_set = place.cluster.platform(&settings.platform);
        let situation = Situation::read(place.cluster, &of_set, Some(&place.workload));
        known.extend(situation.pool_names().map(str::to_owned));
        let situation = match &args.pool {
            None => (!situation.is_empty()).then_some(situation),
            Some(name) => situation.only(name),
        };
        let Some(situation) = situation else { continue };
        complete &= place.cluster.is_complete();
        let here = situation.room(place.cluster, &place.workload);
        room = here.into_iter().chain(room).min_by_key(|(room, _)| room.pods);
        let explained = situation.explain(&place.workload);
        let is_static = |pod: &Explanation| {
            pod.first_pool().is_some_and(|pool| pool.object.path(&["spec", "replicas"]).is_set())
        };
        if explained.iter().any(is_static) {
            let here = situation.waiting(place.cluster, &place.workload);
            waiting = here.into_iter().chain(waiting).max_by_key(|misfit| misfit.pods);
        }
        pods.extend(explained.into_iter().map(|pod| WhyPod {
            set: place.set.clone(),
            workload: copy.clone(),
            pod,
        }));
    }
    if pods.is_empty() {
        return Err(no_pool(args.pool.as_deref(), &known, &paths));
    }
    let answer = WhyAnswer { pods, room, waiting, platform: &platform, complete };
    output::to_stdout(|out| answer.write(out, args.format, RenderOptions::for_stdout(color)))?;
    let fits = answer.pods.iter().all(|one| one.pod.verdict == FitVerdict::Fits);
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// That the input has no NodePool, or none of the requested name.
fn no_pool(name: Option<&str>, known: &[String], paths: &[PathBuf]) -> CliError {
    CliError::Usage(match name {
        Some(name) if !known.is_empty() => {
            let hint = suggest::nearest(name, known.iter().map(String::as_str));
            let hint = hint.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
            format!("there is no NodePool `{name}`{hint}")
        }
        _ => format!(
            "no NodePool found in {}",
            paths.iter().map(|path| display_path(path)).collect::<Vec<_>>().join(", ")
        ),
    })
}

/// A workload in one of the sets that apply it.
struct Surroundings<'l> {
    /// The name of the set; `None` if the whole input is one set.
    set: Option<Arc<str>>,
    /// The workload after the changes of the set.
    workload: Object,
    cluster: &'l Cluster,
}

/// The sets that apply a workload and have a NodePool, or the requested set. A workload that none of them
/// applies may be in any cluster, so that all files form one set for it.
fn surroundings<'l>(
    loaded: &'l Loaded,
    workload: &Object,
    only: Option<&str>,
) -> Result<Vec<Surroundings<'l>>, CliError> {
    if only.is_some() {
        let chosen = loaded.chosen(only)?.into_iter();
        let place = |set: &'l FilledSet| {
            let applied = workloads(&set.cluster).find(|object| object.is_same_manifest(workload));
            let workload = applied.unwrap_or(workload).clone();
            Surroundings { set: set.name.clone(), workload, cluster: set.cluster.in_current_apis() }
        };
        return Ok(chosen.map(place).collect());
    }
    let has_pools = |set: &&FilledSet| set.cluster.in_current_apis().has_any(Kind::NODE_POOL);
    let with_pools = loaded.sets.iter().filter(has_pools);
    let found: Vec<Surroundings<'_>> = with_pools
        .flat_map(|set| {
            let applied = workloads(&set.cluster).filter(|object| object.is_same_manifest(workload));
            applied.map(|workload| Surroundings {
                set: set.name.clone(),
                workload: workload.clone(),
                cluster: set.cluster.in_current_apis(),
            })
        })
        .collect();
    if found.is_empty() {
        return Ok(vec![Surroundings { set: None, workload: workload.clone(), cluster: &loaded.cluster }]);
    }
    Ok(found)
}

/// The workload that the user asks about.
enum Target {
    /// The pod on standard input.
    Stdin,
    /// A workload as `kind/name` or `namespace/kind/name`, or a name alone.
    Name { namespace: Option<String>, kind: Option<String>, name: String },
    /// A file with one workload, or a line of one.
    File { path: PathBuf, line: Option<u32> },
}

impl Target {
    fn parse(text: &str) -> Target {
        if text == "-" {
            return Target::Stdin;
        }
        if let Some((file, line)) = text.rsplit_once(':')
            && let Ok(line) = line.parse()
        {
            return Target::File { path: PathBuf::from(file), line: Some(line) };
        }
        if Path::new(text).is_file() {
            return Target::File { path: PathBuf::from(text), line: None };
        }
        let parts: Vec<&str> = text.split('/').collect();
        let own = |part: &str| Some(part.to_owned());
        match parts.as_slice() {
            [kind, name] => Target::Name { namespace: None, kind: own(kind), name: (*name).to_owned() },
            [namespace, kind, name] => {
                Target::Name { namespace: own(namespace), kind: own(kind), name: (*name).to_owned() }
            }
            _ => Target::Name { namespace: None, kind: None, name: text.to_owned() },
        }
    }
}

/// The workload on standard input. Other objects in that text become part of the set.
fn from_stdin(loaded: &mut Loaded) -> Result<Object, CliError> {
    let mut bytes = Vec::new();
    let failed = |error: std::io::Error| CliError::Usage(format!("<stdin>: {error}"));
    std::io::stdin().read_to_end(&mut bytes).map_err(failed)?;
    let file = File::read(Source::new("<stdin>", bytes));
    let mut cluster = Cluster::new(false);
    for object in &file.objects {
        cluster.apply(object.clone());
        loaded.cluster.apply(object.clone());
        loaded.sets.iter_mut().for_each(|set| set.cluster.apply(object.clone()));
    }
    let found: Vec<&Object> = workloads(&cluster).collect();
    match without_daemonsets(found).as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(CliError::Usage("no pod and no workload on standard input".to_owned())),
        more => Err(CliError::Usage(format!("{} workloads on standard input; give one", more.len()))),
    }
}

/// The candidates if no workload is named: DaemonSets only if there is nothing else, because they usually
/// matter only for the resources that they use on nodes.
fn without_daemonsets(all: Vec<&Object>) -> Vec<&Object> {
    let others: Vec<&Object> = all.iter().filter(|object| !object.is(Kind::DAEMON_SET)).copied().collect();
    if others.is_empty() { all } else { others }
}

/// The short names of kinds in kubectl, besides the kind and its plural.
const SHORT_NAMES: [(&str, &str); 8] = [
    ("po", "pod"),
    ("deploy", "deployment"),
    ("sts", "statefulset"),
    ("ds", "daemonset"),
    ("rs", "replicaset"),
    ("cj", "cronjob"),
    ("sj", "scaledjob"),
    ("isvc", "inferenceservice"),
];

fn is_kind(object: &Object, written: &str) -> bool {
    let written = written.to_lowercase();
    let kind = object.id().kind.to_lowercase();
    let singular = SHORT_NAMES.iter().find(|(short, _)| *short == written).map(|(_, kind)| *kind);
    written == kind || written == format!("{kind}s") || singular == Some(kind.as_str())
}

/// The workload that a target names, in the given set if there is one; of one that was rendered, the copy of each set.
fn find(target: &Target, loaded: &Loaded, only: Option<&str>) -> Result<Vec<Object>, CliError> {
    let mut all: Vec<&Object> = workloads(&loaded.cluster).collect();
    if only.is_some() {
        let chosen = loaded.chosen(only)?;
        let applied: Vec<&Object> =
            all.iter().filter(|one| chosen.iter().any(|set| applies(set, one))).copied().collect();
        if !applied.is_empty() {
            all = applied;
        }
    }
    let (found, what) = match target {
        Target::Name { namespace, kind, name } => {
            let is = |object: &&&Object| {
                object.name() == name
                    && kind.as_ref().is_none_or(|kind| is_kind(object, kind))
                    && namespace.as_ref().is_none_or(|wanted| object.id().namespace_or_default() == wanted)
            };
            let parts = [namespace.as_deref(), kind.as_deref(), Some(name.as_str())];
            let what = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
            (all.iter().filter(is).copied().collect::<Vec<_>>(), what)
        }
        Target::File { path, line } => {
            let reported = loaded.reported(path).map(str::to_owned);
            let in_file = |object: &&&Object| {
                object.origin().is_some_and(|origin| Some(origin.source.path()) == reported.as_deref())
            };
            let of_file: Vec<&Object> = all.iter().filter(in_file).copied().collect();
            match line {
                None => (without_daemonsets(of_file), display_path(path)),
                Some(line) => (at_line(&of_file, *line), format!("{}:{line}", display_path(path))),
            }
        }
        Target::Stdin => (Vec::new(), "-".to_owned()),
    };
    match found.as_slice() {
        [one] => Ok(vec![(*one).clone()]),
        several if !several.is_empty() && are_copies(several, loaded) => {
            Ok(several.iter().copied().cloned().collect())
        }
        [] => {
            let names: Vec<String> = all.iter().map(|object| written(object)).collect();
            let hint = suggest::nearest(&what.to_lowercase(), names.iter().map(String::as_str));
            let hint = match (hint, names.len()) {
                (Some(meant), _) => format!("; did you mean {meant}?"),
                (None, 1..=8) => format!("; there are {}", names.join(", ")),
                (None, count) => format!("; there are {count} others"),
            };
            Err(CliError::Usage(format!("no workload {what} found{hint}")))
        }
        several => {
            let named = |object: &&Object| {
                let at = position(object, &Pointer::root());
                at.map_or_else(|| written(object), |(file, line, _)| format!("{file}:{line}"))
            };
            let places: Vec<String> = several.iter().take(8).map(named).collect();
            Err(CliError::Usage(format!(
                "{what} names {} workloads; give one by its place: {}",
                several.len(),
                places.join(", ")
            )))
        }
    }
}

fn applies(set: &FilledSet, workload: &Object) -> bool {
    workloads(&set.cluster).any(|object| object.is_same_manifest(workload))
}

/// Whether workloads are what one place gives in several sets.
fn are_copies(all: &[&Object], loaded: &Loaded) -> bool {
    let place = |object: &&Object| position(object, &Pointer::root());
    let is_one_place = all.iter().all(|one| place(one).is_some() && place(one) == place(&all[0]));
    is_one_place && loaded.sets.iter().all(|set| all.iter().filter(|one| applies(set, one)).count() <= 1)
}

/// The name of a workload in the form of the argument.
fn written(object: &Object) -> String {
    let id = object.id();
    let name = format!("{}/{}", id.kind.to_lowercase(), object.name());
    id.namespace().map_or(name.clone(), |namespace| format!("{namespace}/{name}"))
}

/// The workload whose document holds a line; of one that was rendered, each copy.
fn at_line<'o>(objects: &[&'o Object], line: u32) -> Vec<&'o Object> {
    let is_rendered = |object: &Object| {
        object.origin().is_some_and(|origin| origin.source.written_line(origin.document).is_some())
    };
    let holds = |object: &&&'o Object| {
        object.origin().is_some_and(|origin| {
            // The lines of a template are not those of what it gives.
            if is_rendered(object) {
                return true;
            }
            let lines = origin.source.lines();
            let at = |byte: u32| lines.position(origin.source.text(), byte).line;
            at(origin.span.start) <= line && line <= at(origin.span.end)
        })
    };
    // The last workload that begins at the line or above it: a list contains several objects.
    let starts = |object: &&'o Object| position(object, &Pointer::root()).map_or(0, |(_, line, _)| line);
    let of_document: Vec<&Object> = objects.iter().filter(holds).copied().collect();
    let above =
        of_document.iter().filter(|object| starts(object) <= line).max_by_key(|object| starts(object));
    let Some(found) = above.or_else(|| of_document.first()).copied() else { return Vec::new() };
    if !is_rendered(found) {
        return vec![found];
    }
    of_document.into_iter().filter(|object| starts(object) == starts(&found)).collect()
}
