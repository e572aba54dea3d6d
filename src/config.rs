//! Finds the configuration of each file: the nearest `gpulint.yaml`, or another of [`CONFIGURATIONS`], in its folder or above.
//!
//! Flags take precedence over every configuration. The engine defines what a configuration may contain.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gpulint_rules::facts::date::Date;
use gpulint_rules::facts::suggest;
use gpulint_rules::lint::config::{Config, RenderConfig};
use gpulint_rules::{Group, Platform, Product, RULES, Settings};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::args::{CheckArgs, KarpenterArgs, LspArgs, PlanArgs, RuleArgs, SetArgs};
use crate::crds;
use crate::error::CliError;
use crate::files::{
    CONFIGURATIONS, Directories, absolute, display_path, here, may_be_configured, relative, short_path,
};

/// The configuration file of a folder.
///
/// # Errors
/// Both names if it has several.
pub(crate) fn in_folder(folder: &Path, directories: &Directories) -> Result<Option<PathBuf>, String> {
    if !may_be_configured(folder) {
        return Ok(None);
    }
    let names = CONFIGURATIONS.iter().filter(|name| directories.has_file(folder, name));
    let mut files = names.map(|name| folder.join(name));
    match (files.next(), files.next()) {
        (Some(one), Some(other)) => Err(format!(
            "{} and {} are configurations of one folder: remove one",
            short_path(&one),
            short_path(&other)
        )),
        (first, _) => Ok(first),
    }
}

/// A configuration, and the folder that its paths are relative to.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) folder: Option<PathBuf>,
    /// The path of the configuration file as reported; empty if there is no file.
    pub(crate) name: String,
    ignore: Gitignore,
    /// The configuration with the flags applied.
    pub(crate) settings: Settings,
    /// The platform of the configuration, without the flags.
    pub(crate) configured: Platform,
    pub(crate) render: RenderConfig,
    /// The absolute path of the baseline.
    pub(crate) baseline: Option<PathBuf>,
    /// The absolute paths of the CustomResourceDefinitions.
    pub(crate) crds: Vec<PathBuf>,
    /// The file of the configuration and those that it extends, nearest first.
    pub(crate) files: Vec<PathBuf>,
}

impl Scope {
    fn new(folder: Option<PathBuf>, name: String, settings: Settings, configured: Platform) -> Scope {
        // The configuration has validated the patterns as globs. Each of them is a line of a .gitignore.
        let mut ignore = GitignoreBuilder::new("");
        for pattern in settings.ignore_paths.patterns() {
            let _ = ignore.add_line(None, &without_current_folder(pattern));
        }
        let ignore = ignore.build().unwrap_or_else(|_| Gitignore::empty());
        Scope {
            folder,
            name,
            ignore,
            settings,
            configured,
            render: RenderConfig::default(),
            baseline: None,
            crds: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Whether `ignore` of the configuration ignores a path; `Some(false)` if a pattern with `!` excepts it
    /// from that, `None` if no pattern matches.
    pub(crate) fn ignores(&self, path: &str) -> Option<bool> {
        let path = Path::new(path.strip_prefix("./").unwrap_or(path));
        // Paths outside the configuration's folder never match.
        if path.has_root() || path.starts_with("..") {
            return None;
        }
        match self.ignore.matched_path_or_any_parents(path, false) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }

    /// Whether the command line names a version of a product that the configuration does not have.
    pub(crate) fn names_other(&self, product: Product) -> bool {
        let (own, named) = (&self.configured, &self.settings.platform);
        named.is_stated(product)
            && !(own.is_stated(product) && own.version(product) == named.version(product))
    }

    /// The file or folder that a path of the configuration names.
    pub(crate) fn resolve(&self, path: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| absolute(&folder.join(path)))
    }

    /// The path of a file relative to the folder of the configuration; `reported` if the file is not below
    /// that folder.
    pub(crate) fn path(&self, file: &Path, reported: &str) -> String {
        self.folder
            .as_ref()
            .and_then(|folder| file.strip_prefix(folder).ok())
            .map_or_else(|| reported.to_owned(), display_path)
    }
}

/// Removes `./` from a pattern and anchors it at the folder of the configuration: in a `.gitignore` it would
/// match nothing. Escapes `#`, which begins a name here, not a comment.
fn without_current_folder(pattern: &str) -> String {
    let (not, path) = pattern.strip_prefix('!').map_or(("", pattern), |path| ("!", path));
    match path.strip_prefix("./") {
        Some("") => format!("{not}/**"),
        Some(below) => format!("{not}/{}", below.trim_start_matches('/')),
        None if path == "." => format!("{not}/**"),
        None if pattern.starts_with('#') => format!("\\{pattern}"),
        None => pattern.to_owned(),
    }
}

/// The configurations found so far.
#[derive(Debug)]
pub(crate) struct Scopes {
    list: Vec<Scope>,
    by_folder: HashMap<PathBuf, usize>,
    explicit: Option<usize>,
    /// The files of all configurations, those with errors included.
    found: BTreeSet<PathBuf>,
    /// Whether configuration files are ignored (`--isolated`).
    isolated: bool,
    errors: Vec<String>,
    flags: Flags,
}

/// The flags, which take precedence over every configuration.
#[derive(Debug, Default)]
struct Flags {
    fail_on: Option<Option<gpulint_rules::Severity>>,
    min_severity: Option<gpulint_rules::Severity>,
    select: Vec<String>,
    ignore: Vec<String>,
    /// The versions of the products, in the order of [`Product::ALL`].
    platform: [Option<gpulint_rules::Version>; 3],
    settings: KarpenterArgs,
    complete: bool,
    no_suppressions: bool,
    show_suppressed: bool,
    /// Paths of definitions that replace those of the configuration. `None`: no definitions are read, because
    /// the command checks objects that an API server has validated.
    crds: Option<Vec<PathBuf>>,
}

impl Flags {
    fn new(args: &RuleArgs) -> Result<Flags, CliError> {
        let mut errors = Vec::new();
        for name in args.select.iter().chain(&args.ignore) {
            if !selectable_names().any(|known| known == name) {
                let hint = match suggest::nearest(name, selectable_names()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "`gpulint rules` lists all".to_owned(),
                };
                errors.push(format!("there is no rule or group `{name}`; {hint}"));
            }
        }
        if !errors.is_empty() {
            return Err(CliError::Several(errors));
        }
        Ok(Flags {
            select: args.select.clone(),
            ignore: args.ignore.clone(),
            platform: [args.karpenter, args.keda, args.kubernetes],
            settings: args.settings.clone(),
            ..Flags::default()
        })
    }

    fn merged_over(&self, mut settings: Settings) -> Settings {
        let platform = &mut settings.platform;
        for (product, version) in Product::ALL.into_iter().zip(self.platform) {
            if let Some(version) = version {
                platform.state(product, version);
                settings.notes.extend(product.note_on(version).ok().flatten());
            }
        }
        platform.feature_gates.extend(self.settings.feature_gates.iter().cloned());
        platform.min_values_policy = self.settings.min_values_policy.or(platform.min_values_policy);
        settings.notes.extend(settings.platform.notes());
        if !self.select.is_empty() {
            settings.select.clone_from(&self.select);
        }
        settings.ignore_rules.extend(self.ignore.iter().cloned());
        if let Some(fail_on) = self.fail_on {
            settings.fail_on = fail_on;
        }
        settings.min_severity = self.min_severity.unwrap_or(settings.min_severity);
        settings.complete |= self.complete;
        settings.suppressions &= !self.no_suppressions;
        settings.keep_suppressed |= self.show_suppressed;
        settings.today = Some(today());
        settings
    }
}

/// All names that `--select` and `--ignore` accept.
fn selectable_names() -> impl Iterator<Item = &'static str> {
    let ids = RULES.iter().map(|rule| rule.id);
    let groups = Group::ALL.iter().map(|group| group.name());
    ids.chain(groups).chain(std::iter::once("all"))
}

fn today() -> Date {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |d| d.as_secs());
    Date::from_unix_seconds(i64::try_from(seconds).unwrap_or_default())
}

impl Scopes {
    pub(crate) fn for_check(args: &CheckArgs) -> Result<Scopes, CliError> {
        let mut flags = Flags::new(&args.rules)?;
        flags.fail_on = args.fail_on.map(crate::args::FailOn::severity);
        flags.min_severity = args.min_severity.map(Into::into);
        flags.complete = args.complete;
        flags.no_suppressions = args.no_suppressions;
        flags.show_suppressed = args.show_suppressed;
        flags.crds = Some(args.crds.clone());
        Scopes::new(&args.rules, flags)
    }

    pub(crate) fn for_plan(args: &PlanArgs) -> Result<Scopes, CliError> {
        let flags = Flags {
            fail_on: args.fail_on.map(crate::args::FailOn::severity),
            complete: args.complete,
            crds: Some(Vec::new()),
            ..Flags::new(&args.rules)?
        };
        Scopes::new(&args.rules, flags)
    }

    pub(crate) fn for_server(args: &LspArgs) -> Result<Scopes, CliError> {
        let flags = Flags {
            complete: args.complete,
            no_suppressions: args.no_suppressions,
            crds: Some(Vec::new()),
            ..Flags::new(&args.rules)?
        };
        Scopes::new(&args.rules, flags)
    }

    /// The configurations of a command that explains a set of objects.
    pub(crate) fn for_set(args: &SetArgs) -> Result<Scopes, CliError> {
        let rules = RuleArgs {
            config: args.config.clone(),
            isolated: args.isolated,
            karpenter: args.karpenter,
            settings: args.settings.clone(),
            ..RuleArgs::default()
        };
        let flags = Flags { complete: args.complete, ..Flags::new(&rules)? };
        Scopes::new(&rules, flags)
    }

    /// The configurations for a command that needs only the settings of rules.
    pub(crate) fn for_rules(args: &RuleArgs) -> Result<Scopes, CliError> {
        Scopes::new(args, Flags::new(args)?)
    }

    fn new(args: &RuleArgs, flags: Flags) -> Result<Scopes, CliError> {
        let mut settings = flags.merged_over(Settings::default());
        if let Some(given) = flags.crds.as_ref().filter(|given| !given.is_empty()) {
            settings.definitions = crds::read(given).map_err(CliError::Several)?;
        }
        let mut scopes = Scopes {
            list: vec![Scope::new(None, String::new(), settings, Platform::default())],
            by_folder: HashMap::new(),
            explicit: None,
            found: BTreeSet::new(),
            isolated: args.isolated,
            errors: Vec::new(),
            flags,
        };
        if let Some(path) = &args.config {
            scopes.explicit = Some(scopes.load(path));
            scopes.finish()?;
        }
        Ok(scopes)
    }

    /// The index of the configuration of a file, given its absolute path.
    pub(crate) fn scope_of(&mut self, file: &Path, directories: &Directories) -> usize {
        if let Some(fixed) = self.explicit {
            return fixed;
        }
        if self.isolated {
            return 0;
        }
        let Some(folder) = file.parent() else {
            return 0;
        };
        let mut scope = 0;
        let mut new = Vec::new();
        for above in folder.ancestors() {
            if let Some(known) = self.by_folder.get(above) {
                scope = *known;
                break;
            }
            new.push(above);
            match in_folder(above, directories) {
                Ok(None) => {}
                Ok(Some(path)) => {
                    scope = self.load(&path);
                    break;
                }
                Err(error) => {
                    self.errors.push(error);
                    break;
                }
            }
        }
        for folder in new {
            self.by_folder.insert(folder.to_owned(), scope);
        }
        scope
    }

    /// Takes the definitions among the files of the input for the configurations that name none.
    pub(crate) fn take_definitions<'p>(&mut self, files: impl Iterator<Item = &'p Path>) {
        if !self.flags.crds.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        let (definitions, read) = crds::of_input(files);
        if definitions.is_empty() {
            return;
        }
        for scope in self.list.iter_mut().filter(|scope| scope.crds.is_empty()) {
            scope.settings.definitions = definitions.clone();
            scope.crds.clone_from(&read);
        }
    }

    /// Reads a configuration. Its errors are stored for [`Scopes::finish`].
    fn load(&mut self, path: &Path) -> usize {
        let named = short_path(path);
        let mut files = Vec::new();
        let read = read_with_base(path, None, &mut files);
        self.found.extend(files.iter().cloned());
        match read {
            Ok(config) => {
                let folder = absolute(path).parent().map(Path::to_owned);
                let settings = config.resolve();
                let configured = settings.platform.clone();
                let mut settings = self.flags.merged_over(settings);
                // Definitions from the command line are in the first scope.
                settings.definitions = self.list[0].settings.definitions.clone();
                if self.flags.crds.as_ref().is_some_and(Vec::is_empty) {
                    let paths = config.crds().iter().map(|path| relative_to(folder.as_deref(), path));
                    match crds::read(&paths.collect::<Vec<_>>()) {
                        Ok(definitions) => settings.definitions = definitions,
                        Err(errors) => self.errors.extend(errors),
                    }
                }
                let mut scope = Scope::new(folder, named, settings, configured);
                scope.render = config.render().clone();
                scope.baseline = config.baseline().and_then(|path| scope.resolve(path));
                scope.crds = config.crds().iter().filter_map(|path| scope.resolve(path)).collect();
                scope.files = files;
                self.list.push(scope);
                self.list.len() - 1
            }
            Err(errors) => {
                for error in errors {
                    if !self.errors.contains(&error) {
                        self.errors.push(error);
                    }
                }
                0
            }
        }
    }

    /// The notes on the configurations, each once.
    pub(crate) fn notes(&self) -> Vec<&str> {
        let mut notes = Vec::new();
        for note in self.list.iter().flat_map(|scope| &scope.settings.notes) {
            if !notes.contains(&note.as_str()) {
                notes.push(note.as_str());
            }
        }
        notes
    }

    /// The absolute paths of the files of all configurations, those with errors included.
    pub(crate) fn found(&self) -> &BTreeSet<PathBuf> {
        &self.found
    }

    /// Adds the files of other configurations to the files that were found.
    pub(crate) fn find_too(&mut self, other: &Scopes) {
        self.found.extend(other.found.iter().cloned());
    }

    pub(crate) fn all(&self) -> &[Scope] {
        &self.list
    }

    pub(crate) fn get(&self, scope: usize) -> &Scope {
        &self.list[scope]
    }

    /// The scopes, or the errors in their files.
    pub(crate) fn finish(&mut self) -> Result<&[Scope], CliError> {
        if self.errors.is_empty() {
            Ok(&self.list)
        } else {
            Err(CliError::Several(std::mem::take(&mut self.errors)))
        }
    }
}

/// Reads a configuration over the ones that it extends, and adds their files to the list, nearest first.
/// `place` is the place of its name, if another configuration extends it.
fn read_with_base(path: &Path, place: Option<&str>, files: &mut Vec<PathBuf>) -> Result<Config, Vec<String>> {
    let named = short_path(path);
    let at = place.map_or_else(String::new, |place| format!("{place}: "));
    let own = absolute(path);
    // Two paths may lead to one file.
    let identity = |path: &Path| crate::files::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if files.iter().any(|known| identity(known) == identity(&own)) {
        let chain: Vec<String> = files.iter().map(|file| short_path(file)).collect();
        return Err(vec![format!("{at}configurations extend each other: {} -> {named}", chain.join(" -> "))]);
    }
    let text = crate::files::read_to_string(path).map_err(|error| {
        vec![match place {
            Some(_) => format!("{at}`extends` cannot be read: {named}: {error}"),
            None => format!("{named}: {error}"),
        }]
    })?;
    files.push(own.clone());
    let config = Config::parse(&named, &text)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let Some(extends) = config.extends().cloned() else { return Ok(config) };
    let folder = own.parent().unwrap_or(Path::new("/"));
    let other = absolute(&folder.join(&extends.path));
    let base = read_with_base(&other, Some(&extends.place), files)?;
    let above = other.parent().unwrap_or(Path::new("/"));
    let below = folder.strip_prefix(above).ok().map(display_path);
    Ok(config.merged_over(base, &relative(folder, above), below.as_deref()))
}

/// Resolves a path of a configuration, which is relative to the folder of that configuration. The result is
/// short if it is below the current folder.
fn relative_to(folder: Option<&Path>, path: &str) -> PathBuf {
    let whole = folder.map_or_else(|| PathBuf::from(path), |folder| folder.join(path));
    let here = here();
    whole.strip_prefix(&here).map(Path::to_owned).unwrap_or(whole)
}

/// The settings of a command that reads no manifests from files: those of the configuration that the flags
/// name, or of the nearest one to the current folder.
#[cfg(feature = "webhook")]
pub(crate) fn settings(args: &RuleArgs) -> Result<Settings, CliError> {
    let mut scopes = Scopes::new(args, Flags::new(args)?)?;
    let scope = scopes.scope_of(&absolute(Path::new(CONFIGURATIONS[0])), &Directories::default());
    scopes.finish()?;
    Ok(scopes.get(scope).settings.clone())
}

#[cfg(feature = "webhook")]
pub(crate) fn files_of(path: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    // Errors in the configuration are reported where it is used.
    let _ = read_with_base(path, None, &mut files);
    if files.is_empty() { vec![path.to_owned()] } else { files }
}

/// The configuration nearest to the current folder.
#[cfg(feature = "webhook")]
pub(crate) fn nearest_config() -> Result<Option<PathBuf>, CliError> {
    let here = here();
    let nearest = here.ancestors().find_map(|folder| in_folder(folder, &Directories::default()).transpose());
    nearest.transpose().map_err(CliError::Usage)
}
