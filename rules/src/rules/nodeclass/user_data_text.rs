//! What Karpenter makes of the text of user data: it merges its own part into MIME archives and into Bottlerocket's settings.

/// Whether a template or a shell fills the text in later.
fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("${")
}

/// Whether each line of a text in TOML can be read by itself: no value goes on in the next line, and nothing is filled in later.
fn is_read_by_lines(text: &str) -> bool {
    !is_template(text) && !text.contains("\"\"\"") && !text.contains("'''")
}

/// A line of a MIME archive with which Karpenter cannot read it, and why: the rules of Go's `net/mail` and `mime/multipart`.
pub(super) fn fault_of_archive(text: &str) -> Option<(&str, &'static str)> {
    if is_template(text) {
        return None;
    }
    let text = text.trim_start();
    let first = text.lines().next()?;
    if let Some(line) = line_in_headers(text.lines()) {
        return Some((line, "an empty line has to end the headers of the archive"));
    }
    let mut head = text.lines().take_while(|line| !line.trim().is_empty());
    let boundary = head.find_map(boundary)?;
    let (delimiter, end) = (format!("--{boundary}"), format!("--{boundary}--"));
    let lines: Vec<&str> = text.lines().collect();
    let is = |line: &str, wanted: &str| line.trim_end() == wanted;
    if !lines.iter().any(|line| is(line, &delimiter)) {
        return Some((first, "no line is the boundary of its header, so that it has no parts"));
    }
    let parts = lines.iter().enumerate().filter(|(_, line)| is(line, &delimiter));
    for (at, _) in parts {
        if let Some(line) = line_in_headers(lines[at + 1..].iter().copied()) {
            return Some((line, "an empty line has to end the headers of the part before it"));
        }
    }
    // Go takes a boundary for the end where only its line break follows; upstream's example ends so.
    let ends = text.ends_with('\n') && lines.last().is_some_and(|line| is(line, &delimiter));
    (!ends && !lines.iter().any(|line| is(line, &end)))
        .then_some((first, "its last boundary, with `--` at the end, is missing"))
}

/// The first line before an empty one that is no header. A line that begins with a blank continues the header before it.
fn line_in_headers<'t>(lines: impl Iterator<Item = &'t str>) -> Option<&'t str> {
    let mut lines = lines.take_while(|line| !line.trim().is_empty());
    lines.find(|line| !line.starts_with([' ', '\t']) && !line.contains(':'))
}

/// The boundary that a header names.
fn boundary(line: &str) -> Option<&str> {
    let at = line.to_ascii_lowercase().find("boundary=")? + "boundary=".len();
    let rest = &line[at..];
    let value = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([';', ' ', '\t']).next(),
    };
    value.filter(|value| !value.is_empty())
}

/// A line of TOML that is not one of Bottlerocket's settings: Karpenter reads `settings` alone, and writes nothing else. `None` also
/// if the text may be no TOML.
pub(super) fn line_outside_settings(text: &str) -> Option<&str> {
    if !is_read_by_lines(text) {
        return None;
    }
    let (mut in_settings, mut in_table, mut depth) = (false, false, 0_usize);
    let mut found = None;
    for line in super::significant_lines(text) {
        if depth > 0 {
            depth = depth_after(line, depth);
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            in_table = true;
            in_settings = is_settings(header.trim_start_matches('[').trim_start());
        } else {
            let (key, value) = line.split_once('=')?;
            let is_key = |c: char| c.is_ascii_alphanumeric() || " -_.\"'/:".contains(c);
            if key.trim().is_empty() || !key.chars().all(is_key) {
                return None;
            }
            if !in_table {
                in_settings = is_settings(key);
            }
            depth = depth_after(value, 0);
        }
        if !in_settings {
            found = found.or(Some(line));
        }
    }
    found
}

/// A line of Bottlerocket's settings that is no TOML, and why: an open quote or bracket, or a text without quotes. `None` also for
/// texts of several lines.
pub(super) fn fault_of_toml(text: &str) -> Option<(&str, &'static str)> {
    if !is_read_by_lines(text) {
        return None;
    }
    let mut depth = 0;
    for line in super::significant_lines(text) {
        if has_open_quote(line) {
            return Some((line, "a quote is not closed"));
        }
        if depth > 0 {
            depth = depth_after(line, depth);
            continue;
        }
        if line.starts_with('[') {
            if depth_after(line, 0) > 0 {
                return Some((line, "the bracket of a table is not closed"));
            }
            continue;
        }
        let (key, value) = line.split_once('=')?;
        depth = depth_after(value, 0);
        if has_open_quote(key) {
            continue;
        }
        let value = value.split('#').next().unwrap_or(value).trim();
        let is_word = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        if is_word && !matches!(value, "true" | "false" | "inf" | "nan") {
            return Some((line, "a text needs quotes"));
        }
        if value.is_empty() {
            return Some((line, "a value is missing"));
        }
    }
    None
}

/// The form of a value in TOML.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Number,
    Bool,
    Text,
    List,
}

impl Form {
    /// `None` for tables and dates, and for what is no value.
    fn of(value: &str) -> Option<Form> {
        let value = value.trim();
        match value.chars().next()? {
            '"' | '\'' => Some(Form::Text),
            '[' => Some(Form::List),
            't' | 'f' => Some(Form::Bool),
            c if c.is_ascii_digit() || matches!(c, '+' | '-') => {
                let digits = value.split(['#', ' ']).next().unwrap_or(value);
                let is_number = digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '_'));
                is_number.then_some(Form::Number)
            }
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Form::Number => "a whole number, without quotes",
            Form::Bool => "`true` or `false`, without quotes",
            Form::Text => "a text in quotes",
            Form::List => "a list of texts",
        }
    }
}

/// Settings below `settings.kubernetes` that are numbers, those that are booleans, lists, and texts, and the tables of texts. Source:
/// `BottlerocketKubernetes` in `pkg/providers/amifamily/bootstrap/bottlerocketsettings.go` of karpenter-provider-aws, 1.0 to 1.14.
const NUMBERS: [&str; 9] = [
    "max-pods",
    "registry-qps",
    "registry-burst",
    "event-qps",
    "event-burst",
    "kube-api-qps",
    "kube-api-burst",
    "container-log-max-files",
    "pod-pids-limit",
];
const BOOLS: [&str; 3] = ["server-tls-bootstrap", "cpu-cfs-quota-enforced", "seccomp-default"];
const LISTS: [&str; 1] = ["allowed-unsafe-sysctls"];
const TEXTS: [&str; 11] = [
    "cloud-provider",
    "cluster-dns-ip",
    "container-log-max-size",
    "cpu-manager-policy",
    "cpu-manager-reconcile-period",
    "topology-manager-scope",
    "topology-manager-policy",
    "image-gc-high-threshold-percent",
    "image-gc-low-threshold-percent",
    "shutdown-grace-period",
    "shutdown-grace-period-for-critical-pods",
];
const TABLES: [&str; 4] = ["node-labels", "eviction-hard", "kube-reserved", "system-reserved"];

/// The form in which Karpenter decodes the setting at a path.
fn decoded_form(path: &[String]) -> Option<Form> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path.strip_prefix(&["settings", "kubernetes"])? {
        [name] if NUMBERS.contains(name) => Some(Form::Number),
        [name] if BOOLS.contains(name) => Some(Form::Bool),
        [name] if LISTS.contains(name) => Some(Form::List),
        [name] if TEXTS.contains(name) => Some(Form::Text),
        [table, _] if TABLES.contains(table) => Some(Form::Text),
        ["node-taints", _] => Some(Form::List),
        _ => None,
    }
}

/// A line of Bottlerocket's settings with a value of another form than Karpenter decodes, the name of the setting, and its form.
pub(super) fn fault_of_form(text: &str) -> Option<(&str, String, &'static str)> {
    if !is_read_by_lines(text) {
        return None;
    }
    let (mut table, mut depth) = (Vec::new(), 0);
    for line in super::significant_lines(text) {
        if depth > 0 {
            depth = depth_after(line, depth);
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            table = keys_of(header.split(']').next()?);
            continue;
        }
        let (key, value) = line.split_once('=')?;
        depth = depth_after(value, 0);
        let path = [table.clone(), keys_of(key)].concat();
        let (Some(form), Some(written)) = (decoded_form(&path), Form::of(value)) else { continue };
        if written != form {
            return Some((line, path.last()?.clone(), form.name()));
        }
    }
    None
}

/// The parts of a dotted key. A dot between quotes belongs to the part.
fn keys_of(text: &str) -> Vec<String> {
    let (mut out, mut quote) = (vec![String::new()], None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '.') => out.push(String::new()),
            (None, c) if c.is_whitespace() => {}
            (_, c) => out.last_mut().unwrap_or(&mut String::new()).push(c),
        }
    }
    out
}

/// Whether a quote of a line is open at its end. A backslash has a meaning between double quotes alone.
fn has_open_quote(line: &str) -> bool {
    let (mut quote, mut escaped) = (None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some('"'), _) if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => break,
            (None, _) => {}
        }
    }
    quote.is_some()
}

fn is_settings(path: &str) -> bool {
    let first = path.split(['.', ']', ' ', '=']).next().unwrap_or(path);
    first.trim_matches(['"', '\'']) == "settings"
}

/// How many arrays are open after a line.
fn depth_after(line: &str, before: usize) -> usize {
    let mut quote = None;
    let mut depth = before;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, '#') => break,
            (None, _) => {}
        }
    }
    depth
}
