//! Finds the tools that fill in placeholders, by traces beside the manifests: a Flux Kustomization with
//! `postBuild`, a call of Terraform's `templatefile`, or a script that runs `envsubst`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use super::disk::MAX_SMALL_BYTES;
use super::kustomization::{POST_BUILD, is_for_all_kustomizations};
use super::walker::Walk;
use super::{Directories, Disk, Input, absolute, map_on_all_threads};
use gpulint_rules::source::{FilledPlaceholder, Source};
use gpulint_rules::{Node, source};

/// Placeholders such as `${X}`.
const BRACES: &str = "${";
/// Placeholders such as `{{ x }}`.
const DOUBLE_BRACES: &str = "{{";
/// The tool that fills in variables of the shell.
const ENVSUBST: &str = "envsubst";
/// Words in a Flux Kustomization that substitutes variables after the build.
const FLUX_WORDS: [&str; 2] = [POST_BUILD, "kustomize.toolkit.fluxcd.io"];
/// Number of folders above a file whose traces count for it.
const LEVELS: usize = 3;
/// Number of files with blocks of a template language from which on the files around them are templates too.
const MANY: usize = 5;
/// Maximum number of scripts that are searched for the files that they fill in.
const MAX_SCRIPTS: usize = 2_000;
/// Maximum number of files and folders to visit when looking for scripts.
const MAX_ENTRIES: usize = 100_000;
/// Maximum number of files of a folder that are searched.
const MAX_FILES: usize = 200;

/// The tools that fill in placeholders, by folder.
#[derive(Debug, Default)]
pub(super) struct FilledFolders {
    folders: HashMap<PathBuf, Traces>,
    /// The paths of Flux Kustomizations with `postBuild`, relative to their repository.
    flux: FluxPaths,
    /// The number of inputs below a folder that have blocks of a template language.
    templates: HashMap<PathBuf, usize>,
    /// The ends of the paths of files that a Terraform file or a script anywhere below the folder of the
    /// inputs fills in, by the name of the file.
    named: HashMap<OsString, Vec<PathBuf>>,
    /// Texts that a script anywhere below the folder of the inputs replaces with `sed`.
    replaced: BTreeSet<String>,
}

/// Traces of tools in the files of one folder.
#[derive(Clone, Copy, Debug, Default)]
struct Traces {
    /// A call of Terraform's `templatefile`, or of `envsubst`.
    braces: bool,
    /// A template of cookiecutter, copier or Ansible.
    double_braces: bool,
    /// The folder is the root of a repository.
    root: bool,
}

impl FilledFolders {
    /// Tools that fill in `${X}` in any file.
    pub(super) fn everywhere() -> FilledFolders {
        FilledFolders { flux: FluxPaths::new(vec![PathBuf::new()]), ..FilledFolders::default() }
    }

    /// Examines the folders of the inputs, those above them up to the current one, and the scripts below the folder that
    /// the inputs are in. `clues` are what the inputs themselves show ([`Clues::of`]).
    pub(super) fn discover(
        inputs: &[Input],
        clues: Vec<Clues>,
        directories: &Directories,
        disk: &Disk,
    ) -> FilledFolders {
        // Files outside of the current folder and of the folder of all inputs do not belong to the user.
        let here = absolute(Path::new("."));
        let common = common_folder(inputs);
        let near = folders_of(inputs).flat_map(|folder| folder.ancestors().take(LEVELS));
        let near: HashSet<&Path> = near.collect();
        let is_own = |folder: &&Path| folder.starts_with(&here) || folder.starts_with(&common);
        let near: Vec<&Path> = near.into_iter().filter(is_own).collect();
        // Folders above the repository of all inputs are not examined either.
        let above = common.ancestors().take_while(|folder| folder.starts_with(&here));
        let repository = above.into_iter().find(|folder| directories.has(folder, ".git")).map(Path::to_owned);
        let is_project = common.starts_with(&here) && here.parent().is_some();
        let root = repository.unwrap_or(if is_project { here } else { common });
        let walk = Walk { known: directories, is_filtered: false, limit: MAX_ENTRIES };
        let walked = walk.run(&root, is_script_name);
        let of = |folder: &Path| match directories.known(folder) {
            Some(_) => directories,
            None => &walked.directories,
        };
        let programs = walked.entries.into_iter().filter(|entry| is_program(&entry.absolute));
        let mut scripts: Vec<PathBuf> = programs.take(MAX_SCRIPTS).map(|entry| entry.absolute).collect();
        for folder in &near {
            let Some(directory) = of(folder).known(folder) else { continue };
            let beside = directory.entries().filter(|(name, _)| is_script_name(name)).take(MAX_FILES);
            scripts.extend(beside.map(|(name, _)| folder.join(name)));
        }
        scripts.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        scripts.dedup();
        let scripts = map_on_all_threads(scripts, |path| {
            let script = Script::read(&path, disk);
            (path, script)
        });
        let mentioning = scripts.iter().filter(|(_, script)| script.mentions_tool);
        let mentioning: HashSet<&Path> = mentioning.filter_map(|(path, _)| path.parent()).collect();
        let folders = near.into_iter().map(|folder| {
            let braces = mentioning.contains(folder);
            (folder.to_owned(), Traces { braces, ..Traces::of(folder, of(folder)) })
        });
        let folders = folders.collect();
        let mut named: HashMap<OsString, Vec<PathBuf>> = HashMap::new();
        let mut flux = Vec::new();
        let mut templates: HashMap<PathBuf, usize> = HashMap::new();
        let mut told = Vec::new();
        for clue in clues {
            flux.extend(clue.flux);
            told.extend(clue.named);
            for folder in clue.template.iter().flat_map(|path| path.ancestors().skip(1).take(LEVELS)) {
                *templates.entry(folder.to_owned()).or_default() += 1;
            }
        }
        let mut replaced = BTreeSet::new();
        for (_, script) in scripts {
            replaced.extend(script.replaced);
            told.extend(script.named);
        }
        for path in told {
            let name = path.file_name().unwrap_or_default().to_owned();
            named.entry(name).or_default().push(path);
        }
        FilledFolders { folders, flux: FluxPaths::new(flux), templates, named, replaced }
    }

    /// The placeholders of a file that tools fill in. `roots` are the folders of the kustomizations that
    /// reach the file.
    pub(super) fn of<'a>(
        &self,
        path: &'a Path,
        roots: impl Iterator<Item = &'a Path>,
        text: &str,
    ) -> Vec<FilledPlaceholder> {
        // A comment in the file itself may say which tool applies it.
        let mut comments = comments_of(text);
        let mut named = path.file_name().and_then(|name| self.named.get(name)).into_iter().flatten();
        let has_word = || memchr::memmem::find(text.as_bytes(), ENVSUBST.as_bytes()).is_some();
        let mut braces = has_word() && comments.any(|line| line.contains(ENVSUBST))
            || named.any(|named| path.ends_with(named));
        let mut double_braces = false;
        for traces in path.ancestors().skip(1).take(LEVELS).filter_map(|folder| self.folders.get(folder)) {
            braces |= traces.braces;
            double_braces |= traces.double_braces;
            if traces.root {
                break;
            }
        }
        let mut around = path.ancestors().skip(1).take(LEVELS);
        double_braces |= around.any(|folder| self.templates.get(folder).is_some_and(|n| *n >= MANY));
        braces = braces || std::iter::once(path).chain(roots).any(|place| self.flux.has_above(place));
        let found = [(braces, BRACES), (double_braces, DOUBLE_BRACES)];
        let by_syntax =
            found.into_iter().filter(|(is, _)| *is).map(|(_, start)| FilledPlaceholder::Syntax(start));
        let replaced = self.replaced.iter().filter(|replaced| text.contains(replaced.as_str()));
        by_syntax.chain(replaced.cloned().map(FilledPlaceholder::Part)).collect()
    }
}

impl Traces {
    /// The traces that the names in a folder show.
    fn of(folder: &Path, directories: &Directories) -> Traces {
        let has_template = |name: &&str| directories.has_file(folder, name);
        Traces {
            root: directories.has(folder, ".git"),
            double_braces: ["cookiecutter.json", "copier.yml", "copier.yaml"].iter().any(has_template)
                // The folder of templates in a role of Ansible.
                || folder.file_name().is_some_and(|name| name == "templates")
                    && folder.parent().is_some_and(|role| directories.has_directory(role, "tasks")),
            braces: false,
        }
    }
}

/// What a script shows about the files that it fills in.
#[derive(Debug, Default)]
struct Script {
    /// Whether it names a tool that fills in placeholders such as `${X}`.
    mentions_tool: bool,
    /// The ends of the paths of the files, if the script is a program: the folder and the name of each, if it
    /// calls `envsubst` or `templatefile`. A name without a folder is that of a file beside the script.
    named: Vec<PathBuf>,
    /// The texts that it replaces with `sed`.
    replaced: Vec<String>,
}

impl Script {
    fn read(path: &Path, disk: &Disk) -> Script {
        let words = ["envsubst", "templatefile(", "template_file", "kubectl_path_documents"];
        let text = disk.read_small(path).unwrap_or_default();
        let has = |word: &&str| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some();
        let mut script = Script { mentions_tool: words.iter().any(has), ..Script::default() };
        if has(&"sed ") {
            let text = text.replace("\\\n", " ");
            let calls = text.lines().filter(|line| line.contains("sed "));
            script.replaced = calls.flat_map(replaced_by_sed).collect();
        }
        if script.mentions_tool && is_program(path) {
            let text = text.replace("\\\n", " ");
            let calls = |line: &&str| ["envsubst", "templatefile("].iter().any(|word| line.contains(word));
            let paths = text.lines().filter(calls).flat_map(paths_in);
            script.named = paths.map(|path| Path::new(path).to_owned()).collect();
        }
        script
    }
}

/// The placeholders that the commands of `sed` in a line replace: `NAME` of `s/NAME/$name/g`.
fn replaced_by_sed(line: &str) -> Vec<String> {
    const DELIMITERS: [char; 6] = ['/', '|', '#', ',', '@', '~'];
    let starts = line.match_indices(['\'', '"', ' ', ';']).filter_map(|(at, _)| {
        let command = line[at + 1..].strip_prefix('s')?;
        let delimiter = command.chars().next().filter(|first| DELIMITERS.contains(first))?;
        let mut out = String::new();
        let mut rest = command[1..].chars();
        loop {
            match rest.next()? {
                '\\' => out.push(rest.next()?),
                // A pattern is not the text of a placeholder.
                '*' | '[' | '^' | '(' | ' ' => return None,
                end if end == delimiter => break,
                other => out.push(other),
            }
        }
        let capitals = out.chars().filter(char::is_ascii_uppercase).count();
        (capitals >= MIN_CAPITALS).then_some(out)
    });
    starts.collect()
}

/// Minimum number of capitals of a text that scripts replace in manifests.
const MIN_CAPITALS: usize = 3;

/// Whether a text may have placeholders that these tools fill in.
pub(super) fn has_placeholders(text: &[u8]) -> bool {
    // Both syntaxes end their opening in the same brace.
    memchr::memchr_iter(b'{', text).any(|at| at > 0 && matches!(text[at - 1], b'$' | b'{'))
        || has_name_in_capitals(text)
}

/// Whether a text has a name in capitals that is a part of a value or in brackets: `job-RUN_NUMBER`, `{REGION}`, `<TEAM>`.
fn has_name_in_capitals(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let is_name = |at: usize| {
        let rest = &text[at + 1..];
        let name = &rest[..rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len())];
        let is_closed = matches!(
            (text[at], rest.get(name.len())),
            (b'{', Some(b'}')) | (b'<', Some(b'>')) | (b'[', Some(b']'))
        );
        name.len() >= MIN_CAPITALS
            && name[0].is_ascii_uppercase()
            && (is_closed || text[at] == b'-' && name.contains(&b'_'))
    };
    memchr::memchr3_iter(b'-', b'{', b'<', text).chain(memchr::memchr_iter(b'[', text)).any(is_name)
}

/// The folders of the inputs; consecutive inputs of one folder give it once.
fn folders_of(inputs: &[Input]) -> impl Iterator<Item = &Path> {
    let placed = inputs.iter().filter(|input| input.stream.is_none());
    let mut last = None;
    placed
        .filter_map(|input| input.absolute.parent())
        .filter(move |folder| last.replace(*folder) != Some(*folder))
}

pub(super) fn common_folder(inputs: &[Input]) -> PathBuf {
    let mut folders = folders_of(inputs);
    let first = folders.next().unwrap_or(Path::new("")).to_owned();
    folders.fold(first, |common, folder| {
        if folder.starts_with(&common) {
            return common;
        }
        let shared = common.components().zip(folder.components()).take_while(|(a, b)| a == b);
        shared.map(|(part, _)| part).collect()
    })
}

/// Whether a file is a program that may apply manifests of other folders, as opposed to documentation.
fn is_program(path: &Path) -> bool {
    is_script(path) && path.extension().is_none_or(|extension| extension != "md")
}

/// Whether a file may show how manifests are applied: a script, a Makefile, a CI pipeline or documentation.
pub(crate) fn is_script(path: &Path) -> bool {
    path.file_name().is_some_and(is_script_name)
}

/// Asked of every name in the repository: a search in its text takes a tenth of the instructions of [`Path::extension`].
fn is_script_name(name: &OsStr) -> bool {
    const EXTENSIONS: [&str; 6] = ["tf", "tofu", "sh", "bash", "mk", "md"];
    const NAMES: [&str; 5] = ["Makefile", "GNUmakefile", "justfile", "Justfile", ".gitlab-ci.yml"];
    let Some(name) = name.to_str() else { return false };
    // A dot in front begins no extension.
    let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
    extension.is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
        || NAMES.contains(&name)
        || ["Taskfile.", "skaffold."].iter().any(|start| name.starts_with(start))
}

/// What an input shows about placeholders of other inputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Clues {
    /// The paths of Flux Kustomizations with `postBuild`.
    flux: Vec<PathBuf>,
    /// The path of the input, if it has blocks of a template language.
    template: Option<PathBuf>,
    /// Files beside the input that its comments name where they speak of `envsubst`.
    named: Vec<PathBuf>,
}

impl Clues {
    /// Variables that are added to Kustomizations of Flux whose paths are not known.
    pub(super) fn everywhere() -> Clues {
        Clues { flux: vec![PathBuf::new()], ..Clues::default() }
    }

    pub(super) fn of(path: &Path, bytes: &[u8]) -> Clues {
        let has = |word: &str| memchr::memmem::find(bytes, word.as_bytes()).is_some();
        if bytes.len() as u64 > MAX_SMALL_BYTES {
            return Clues::default();
        }
        let text = |is: bool| if is { std::str::from_utf8(bytes).unwrap_or_default() } else { "" };
        let comments: Vec<&str> = comments_of(text(has(ENVSUBST))).collect();
        let is_told = comments.iter().any(|line| line.contains(ENVSUBST));
        let named = comments.iter().filter(|_| is_told).flat_map(|line| manifests_in(line));
        let beside = named.filter_map(|name| Some(path.parent()?.join(Path::new(name).file_name()?)));
        Clues {
            flux: flux_paths(text(FLUX_WORDS.into_iter().all(has))),
            named: beside.collect(),
            template: text(has(DOUBLE_BRACES)).lines().any(is_block).then(|| path.to_owned()),
        }
    }
}

fn comments_of(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim_start).filter(|line| line.starts_with('#'))
}

/// Whether a line begins, continues or ends a block of a template language, also in a comment: `# {{ if .Values.x }}`.
fn is_block(line: &str) -> bool {
    const WORDS: [&str; 7] = ["if", "range", "with", "end", "else", "define", "$"];
    let line = line.trim_start_matches(['#', ' ']);
    let inside = line.strip_prefix(DOUBLE_BRACES).map(|rest| rest.trim_start_matches(['-', ' ']));
    inside.is_some_and(|inside| {
        WORDS.iter().any(|word| match inside.strip_prefix(word) {
            // A variable is set, not written.
            Some(rest) if *word == "$" => rest.contains(":="),
            Some(rest) => rest.starts_with([' ', '}', '-']),
            None => false,
        })
    })
}

/// The paths of the Flux Kustomizations in a text that substitute variables after the build.
fn flux_paths(text: &str) -> Vec<PathBuf> {
    if text.is_empty() {
        return Vec::new();
    }
    let documents = source::read(&Source::from_text("kustomization", text));
    let roots = documents.iter().filter_map(source::Document::root);
    // The paths of the Kustomizations that a patch reaches are not known here.
    let hands_down = |root: &Node<'_>| {
        let patches = root.path(&["spec", "patches"]);
        patches.items().any(|patch| {
            is_for_all_kustomizations(&patch.get("target"))
                && patch.get("patch").text().is_some_and(|patch| patch.contains(POST_BUILD))
        })
    };
    let everywhere = roots.clone().any(|root| hands_down(&root)).then(PathBuf::new);
    roots
        .filter(|root| {
            let version = root.get("apiVersion").text().unwrap_or_default();
            let build = root.path(&["spec", "postBuild"]);
            version.starts_with("kustomize.toolkit.fluxcd.io/")
                && (build.get("substitute").is_set() || build.get("substituteFrom").is_set())
        })
        .flat_map(|root| {
            let spec = root.get("spec");
            let path = spec.get("path").text().map(Path::new);
            // The components of a Kustomization are given relative to its path.
            let components = spec.get("components");
            let components = components.items().filter_map(|item| Some(path?.join(item.text()?)));
            path.map(Path::to_owned)
                .into_iter()
                .chain(components)
                .map(|path| plain(&path))
                .collect::<Vec<_>>()
        })
        .chain(everywhere)
        .collect()
}

/// Whether a text may show what fills in placeholders of other files ([`Clues`]).
pub(crate) fn fills_placeholders(text: &str) -> bool {
    FLUX_WORDS.iter().all(|word| text.contains(word))
        || text.contains(ENVSUBST)
        || text.contains(DOUBLE_BRACES) && text.lines().any(is_block)
}

/// A relative path without `.`, and without `..` where that follows a folder.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => out.push(part),
            Component::ParentDir => _ = out.pop(),
            _ => {}
        }
    }
    out
}

/// The ends of the paths of manifests in a line of a script, starting after the last variable or `..`, if
/// they contain a folder.
fn paths_in(line: &str) -> impl Iterator<Item = &str> {
    let ends = manifests_in(line).map(|word| {
        let end = word.rfind("../").map_or(word, |at| &word[at + 3..]);
        end.trim_start_matches(['.', '/'])
    });
    ends.filter(|end| end.contains('/'))
}

/// The words of a line that are names or paths of manifests.
fn manifests_in(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let words = line.split(move |c| !is_path(c));
    words.filter(|word| [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end)))
}

/// Paths that are relative to an unknown folder.
#[derive(Debug, Default)]
struct FluxPaths {
    /// Whether one of them is empty, so that it means the whole repository.
    is_whole: bool,
    /// The other paths, by their first part.
    by_first: HashMap<OsString, HashSet<PathBuf>>,
}

impl FluxPaths {
    fn new(paths: Vec<PathBuf>) -> FluxPaths {
        let mut flux = FluxPaths::default();
        for path in paths {
            match path.components().next() {
                None => flux.is_whole = true,
                Some(first) => {
                    let first = first.as_os_str().to_owned();
                    flux.by_first.entry(first).or_default().insert(path);
                }
            }
        }
        flux
    }

    /// Whether a file or folder is one of the paths or below one, relative to any folder above it.
    fn has_above(&self, place: &Path) -> bool {
        if self.is_whole || self.by_first.is_empty() {
            return self.is_whole;
        }
        let mut rest = place.components();
        while let Some(part) = rest.clone().next() {
            let begins = self.by_first.get(part.as_os_str());
            if begins.is_some_and(|paths| rest.as_path().ancestors().any(|above| paths.contains(above))) {
                return true;
            }
            rest.next();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Clues, FluxPaths, has_placeholders, is_block, paths_in, plain, replaced_by_sed};

    #[test]
    fn paths_in_scripts_end_at_a_folder() {
        let of = |line: &'static str| paths_in(line).collect::<Vec<_>>();
        let line = "envsubst < ${path.module}/../../karpenter/nodepools.yaml | kubectl apply -f -";
        assert_eq!(of(line), ["karpenter/nodepools.yaml"]);
        let line = "x = templatefile(\"${path.module}/manifests/x/y.yaml\", {a = 1})";
        assert_eq!(of(line), ["manifests/x/y.yaml"]);
        assert_eq!(of("envsubst < class.yaml | kubectl apply -f -"), Vec::<&str>::new());
        assert_eq!(plain(Path::new("./apps/a/../../components/gpu")), Path::new("components/gpu"));
    }

    #[test]
    fn texts_that_sed_replaces() {
        for (line, texts) in [
            ("sed \"s/INSTANCE_SAFE/${SAFE_NAME}/g\" | \\", &["INSTANCE_SAFE"][..]),
            ("sed -i -- 's/{CLUSTER_NAME}/'$CLUSTER_NAME'/g' pool.yaml", &["{CLUSTER_NAME}"]),
            ("sed -e 's|<TEAM>|a|' -e \"s#\\${ACCOUNT}#$a#\" x", &["<TEAM>", "${ACCOUNT}"]),
            ("sed 's/^image: .*/image: X/' x", &[]),
            ("sed 's/v1/v2/' x", &[]),
        ] {
            assert_eq!(replaced_by_sed(line), texts, "{line}");
        }
    }

    #[test]
    fn names_in_capitals_may_be_placeholders() {
        for text in ["name: job-RUN_NUMBER", "role: {ROLE}", "a: <TEAM>", "a: [TEAM]-x"] {
            assert!(has_placeholders(text.as_bytes()), "{text}");
        }
        for text in ["- name: REDIS_HOST", "a: {b: C}", "x-AMZ: a", "key: -1", "a: [B]"] {
            assert!(!has_placeholders(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn blocks_of_a_template_language_are_told_from_values() {
        for line in ["{{ if .Values.x }}", "# {{- end }}", "{{- else -}}", "# {{ $image := \"a:1\" }}"] {
            assert!(is_block(line), "{line}");
        }
        for line in ["{{ $labels.pod }} is down", "{{ ifname }}", "name: '{{ .x }}'", "{{ .x }}", "end"] {
            assert!(!is_block(line), "{line}");
        }
    }

    #[test]
    fn a_comment_names_the_files_beside_it() {
        let text = "# Run envsubst first:\n#   envsubst < b.yaml | kubectl apply -f -\nkind: X\n";
        let clues = Clues::of(Path::new("/r/a.yaml"), text.as_bytes());
        assert_eq!(clues.named, [Path::new("/r/b.yaml")]);
        assert!(Clues::of(Path::new("/r/a.yaml"), b"# see b.yaml\n").named.is_empty());
    }

    #[test]
    fn paths_of_flux_are_relative_to_a_folder_above() {
        let is_below = |place: &str, path: &str| {
            FluxPaths::new(vec!["other/prod".into(), path.into()]).has_above(Path::new(place))
        };
        assert!(is_below("/repo/apps/prod/web/a.yaml", "apps/prod"));
        assert!(is_below("/repo/apps/prod", "apps/prod"));
        assert!(is_below("/apps/apps/prod/a.yaml", "apps/prod"));
        assert!(!is_below("/repo/apps/production/a.yaml", "apps/prod"));
        assert!(is_below("/repo/a.yaml", ""));
    }
}
