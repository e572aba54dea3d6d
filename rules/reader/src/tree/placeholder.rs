//! Placeholders: text that a template engine or shell replaces before the manifest is applied.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// Maximum length of a text that is searched without the quick check first.
const SHORT: usize = 64;

/// Whether a text contains a placeholder: `${X}`, `{{ }}`, `$(X)`, `$$X$$`, `<X>`, `__X__` or a word such as `CHANGEME`,
/// or is `$X`; also one of other template engines: `[[ x ]]`, `@@X@@`, `@X@`, `%X%`.
pub fn is_placeholder(text: &str) -> bool {
    let bytes = text.as_bytes();
    if (text.len() < SHORT || may_have_fill_word(text)) && fill_word(text).is_some() {
        return true;
    }
    if other_placeholder(text).is_some() {
        return true;
    }
    if memchr::memchr3(b'$', b'{', b'<', bytes).is_none() {
        return false;
    }
    if text.contains("{{") && text.contains("}}") {
        return true;
    }
    if has_delimited(text, "${", '}') || has_delimited(text, "$(", ')') {
        return true;
    }
    if let Some(name) = text.strip_prefix('$').filter(|_| !NAMES_WITH_DOLLAR.contains(&text)) {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(word) {
            return true;
        }
    }
    has_between_dollars(text) || has_angle_bracketed(text)
}

/// Names that begin with `$` themselves: accounts and subjects of NATS, and the default consumer group of Azure Event Hubs.
const NAMES_WITH_DOLLAR: [&str; 6] = ["$G", "$SYS", "$JS", "$KV", "$SRV", "$Default"];

/// Whether a text contains `$$X$$`.
fn has_between_dollars(text: &str) -> bool {
    let parts: Vec<&str> = text.split("$$").collect();
    let is_word =
        |name: &&str| !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    parts.len() > 2 && parts[1..parts.len() - 1].iter().any(is_word)
}

/// Whether a text has a character sequence that is part of every placeholder. One pass over a whole document.
pub(crate) fn may_contain_placeholder(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr3_iter(b'$', b'<', b'{', bytes)
        .any(|at| bytes[at] != b'{' || bytes.get(at + 1) == Some(&b'{'))
        || may_have_fill_word(text)
        || other_placeholder(text).is_some()
}

/// The first placeholder between double brackets, at signs or percent signs. Its name has to be one: the bodies of scripts, and the
/// addresses and formats of other programs, have these characters as well.
fn other_placeholder(text: &str) -> Option<&str> {
    /// Minimum length of a name between percent signs.
    const MIN_LENGTH: usize = 3;
    let bytes = text.as_bytes();
    memchr::memchr3_iter(b'[', b'@', b'%', bytes).find_map(|start| {
        let rest = text.get(start..)?;
        // What a word ends with, as the at sign of an address, begins none.
        let is_joined = start.checked_sub(1).is_some_and(|before| bytes[before].is_ascii_alphanumeric());
        let between = |open: &str, close: &str| {
            let inner = rest.strip_prefix(open)?;
            let end = inner.find(close)?;
            Some((&inner[..end], rest.get(..open.len() + end + close.len())?))
        };
        let is_path = |name: &str| {
            let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            let name = name.strip_prefix('.').unwrap_or(name);
            name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(part)
        };
        let is_constant = |name: &str| {
            let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(part)
        };
        let found = match bytes[start] {
            b'[' => between("[[", "]]").filter(|(name, _)| is_path(name.trim())),
            b'@' => between("@@", "@@").filter(|(name, _)| is_path(name)).or_else(|| {
                between("@", "@").filter(|(name, _)| {
                    !is_joined && (is_constant(name) || name.contains('.') && is_path(name))
                })
            }),
            // Addresses escape bytes as two digits of base 16, and logs have formats of the same form.
            _ => between("%", "%").filter(|(name, found)| {
                let is_name = name.len() >= MIN_LENGTH && is_constant(name);
                is_name && name.contains(|c: char| !c.is_ascii_hexdigit()) && !is_format(text, found)
            }),
        };
        found.map(|(_, found)| found)
    })
}

/// Whether a name between percent signs is one of several, or is among the fields of a format, as in access logs of Envoy.
fn is_format(text: &str, found: &str) -> bool {
    const FIELDS: [&str; 9] = [
        "START_TIME",
        "PROTOCOL",
        "RESPONSE_",
        "BYTES_",
        "DURATION",
        "UPSTREAM_",
        "DOWNSTREAM_",
        "REQUEST",
        "ROUTE_NAME",
    ];
    let name = found.trim_matches('%');
    text.contains("%REQ(") || FIELDS.iter().any(|field| name.starts_with(field))
}

/// Whether a text has characters that are part of every word of [`fill_word`].
fn may_have_fill_word(text: &str) -> bool {
    static WORDS: LazyLock<[Finder<'static>; 5]> =
        LazyLock::new(|| ["__", "CHANGE", "FILL", "PLACEHOLDER", "REPLACE"].map(Finder::new));
    WORDS.iter().any(|word| word.find(text.as_bytes()).is_some())
}

/// The first word in a text that marks a value to fill in: `__REGION__`, `CHANGEME`, `REPLACE_ME`, `ROLE_PLACEHOLDER`,
/// `FILLED BY CI`. Only in capitals: in lower case these are ordinary words.
fn fill_word(text: &str) -> Option<&str> {
    const MIN_LENGTH: usize = 5;
    let is_part = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let mut from = 0;
    while let Some(next) = text.as_bytes()[from..].iter().position(is_part) {
        let start = from + next;
        let length = text.as_bytes()[start..].iter().position(|byte| !is_part(byte));
        from = length.map_or(text.len(), |length| start + length);
        let (word, after) = (&text[start..from], &text[from..]);
        if word.len() >= MIN_LENGTH && is_fill_word(word) {
            return Some(word);
        }
        // Words that are separated: `CHANGE-ME`, `FILLED BY CI`.
        let next = after.get(1..).unwrap_or_default();
        let apart = after.starts_with(['-', ' '])
            && match word {
                "CHANGE" => next.starts_with("ME"),
                "REPLACE" => next.starts_with("ME") || next.starts_with("WITH") || next.starts_with("BY"),
                "FILL" => next.starts_with("IN") || next.starts_with("ME"),
                "FILLED" => next.starts_with("BY") || next.starts_with("IN"),
                _ => false,
            };
        if apart {
            return Some(&text[start..]);
        }
    }
    None
}

/// Whether a word of capitals, digits and underscores marks a value to fill in.
fn is_fill_word(word: &str) -> bool {
    // Names of variables are such words too, and every value in a file with placeholders is asked.
    let mut parts = word.as_bytes().windows(4);
    if !word.starts_with("__") && !parts.any(|part| matches!(part, b"LACE" | b"HANG" | b"FILL")) {
        return false;
    }
    let between_underscores = || {
        let inner = word.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
        inner.is_some_and(|inner| inner.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    word.contains("PLACEHOLDER")
        || word.contains("CHANGEME")
        || word.contains("CHANGE_ME")
        || word.contains("REPLACEME")
        || word.starts_with("REPLACE_")
        || word.ends_with("_REPLACE")
        || word.contains("_REPLACE_")
        || word.contains("FILLED_BY")
        || word.contains("FILL_IN")
        || between_underscores()
}

/// Whether a text in a field for a number or encoded data is a word in capitals, such as `PORT`.
pub fn is_word_in_capitals(text: &str) -> bool {
    let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.len() >= 3 && text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(part)
}

/// The first name in braces in a line of YAML that does not parse because text that cannot follow a map comes after
/// the braces: `{registry}/app`.
pub fn find_braces_in_value(line: &str) -> Option<&str> {
    let mut from = 0;
    while let Some(open) = line[from..].find('{') {
        let start = from + open;
        let end = start + line[start..].find('}')? + 1;
        let name = &line[start + 1..end - 1];
        let begins = line[..start].chars().next_back().is_none_or(|c| matches!(c, ' ' | '[' | ','));
        let goes_on =
            line[end..].starts_with(|c: char| !c.is_whitespace() && !matches!(c, ',' | ']' | '}' | ':'));
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
        if begins && goes_on && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(part)
        {
            return line.get(start..end);
        }
        from = start + 1;
    }
    None
}

/// The first name in capitals in brackets in a line of YAML that does not parse because text that cannot follow a list comes
/// after the brackets: `[TEAM]-queue`.
pub fn find_brackets_in_value(line: &str) -> Option<&str> {
    let mut from = 0;
    while let Some(open) = line[from..].find('[') {
        let start = from + open;
        let end = start + line[start..].find(']')? + 1;
        let before = line[..start].trim_end();
        let begins = before.is_empty() || before.ends_with([':', '-', '[', '{', ',']);
        let goes_on =
            line[end..].starts_with(|c: char| !c.is_whitespace() && !matches!(c, ',' | ']' | '}' | ':'));
        if begins && goes_on && is_word_in_capitals(&line[start + 1..end - 1].replace(['-', ' '], "_")) {
            return line.get(start..end);
        }
        from = start + 1;
    }
    None
}

/// The first `${NAME}` without quotes within a map or a list in brackets, on a line of YAML that does not parse because
/// of its brace: `[${ZONE}a]`.
pub fn find_variable_in_flow(line: &str) -> Option<&str> {
    let is_value_start = |before: &str| {
        let before = before.trim_end_matches(['-', ' ']);
        before.is_empty() || before.ends_with([':', ',', '[', '{'])
    };
    let opened = line.match_indices(['[', '{']).find(|(at, _)| is_value_start(&line[..*at]))?.0;
    let start = opened + line[opened..].find("${")?;
    let end = start + line[start..].find('}')? + 1;
    let name = &line[start + 2..end - 1];
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_quoted = ['"', '\''].iter().any(|quote| line[..start].matches(*quote).count() % 2 == 1);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(part);
    (is_name && !is_quoted).then(|| &line[start..end])
}

/// The name in capitals at the end of a line of YAML that does not parse because a program puts entries there:
/// `env:ENV_ENTRIES`, `policy: "All"MORE_FIELDS`.
pub fn find_joined_name(line: &str) -> Option<&str> {
    let line = line.trim_end();
    let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let name = &line[line.trim_end_matches(part).len()..];
    let before = line.strip_suffix(name)?;
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.contains('_');
    let key = before.trim_start().trim_start_matches("- ").strip_suffix(':');
    let is_key =
        |key: &str| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let is_after_quote = [('"', ": \""), ('\'', ": '")]
        .iter()
        .any(|(end, start)| before.ends_with(*end) && before.contains(*start));
    (is_name && (key.is_some_and(is_key) || is_after_quote)).then_some(name)
}

/// The placeholder on a line of YAML by itself, in place of an entry: `<ISSUER_ANNOTATION>`, `${ANNOTATIONS}`.
pub fn whole_line_placeholder(line: &str) -> Option<&str> {
    let text = line.trim();
    let between = |open: &str, close: char| text.strip_prefix(open)?.strip_suffix(close);
    let name = between("<", '>').or_else(|| between("${", '}'))?;
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ');
    (name.len() >= 3 && name.chars().all(part)).then_some(text)
}

/// Whether a text that is not valid for its field is a template of a value: `{name}`, `{registry}/app`, `spot |
/// on-demand`, `%s`, `ami-XXXXXXXX`, and `CLUSTER_NAME` or `web-CLUSTER_NAME` for a name, a namespace, an image or a schedule. Such
/// text is an ordinary value elsewhere, as in an environment variable.
pub fn is_stand_in(text: &str, field: &str) -> bool {
    const MIN_LENGTH: usize = 5;
    /// Common names of values to fill in: `NAME`, `APP-vol`.
    const FIELD_NAMES: &[&str] = &[
        "ACCOUNT",
        "APP",
        "BUCKET",
        "CLUSTER",
        "DOMAIN",
        "ENV",
        "IMAGE",
        "NAME",
        "NAMESPACE",
        "REGION",
        "SERVICE",
        "TAG",
        "USER",
        "VERSION",
        "YOUR",
    ];
    /// Ends of words that stand for a part of a name, as in `slurm-job-JOBID`.
    const ENDS: [&str; 7] = ["ID", "NAME", "NUMBER", "INDEX", "SUFFIX", "HASH", "STAMP"];
    let named = field.ends_with("ame") || matches!(field, "namespace" | "image" | "schedule");
    let is_constant = |word: &str| {
        let part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        named
            && (FIELD_NAMES.contains(&word)
                || word.len() >= MIN_LENGTH
                    && word.chars().all(|c| c.is_ascii_uppercase())
                    && ENDS.iter().any(|end| word.ends_with(end))
                || word.len() >= MIN_LENGTH
                    && word.starts_with(|c: char| c.is_ascii_uppercase())
                    && word.contains('_')
                    && word.chars().all(part))
    };
    let in_braces = || {
        let inner = text.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
        inner.is_some_and(|(inner, _)| {
            inner.starts_with(|c: char| c.is_ascii_alphabetic()) && inner.chars().all(part)
        })
    };
    let is_choice = || {
        let mut parts = text.split(" | ");
        let word = |part: &str| !part.is_empty() && !part.contains(['(', ')', '{', '"', '=']);
        text.contains(" | ") && parts.all(word)
    };
    // A part of a name, as in `job-RUN_NUMBER` or `jobRUN_NUMBER`.
    let has_constant = || {
        let mut parts = text.split(['-', '/', ':']);
        let in_part = |part: &str| {
            is_constant(part.trim_start_matches(|c: char| c.is_ascii_lowercase()))
                || part.split('.').any(|label| named && FIELD_NAMES.contains(&label))
        };
        parts.any(in_part)
    };
    let is_blank = |part: &str| part.len() >= MIN_LENGTH && part.bytes().all(|byte| byte == b'X');
    let has_blank = || text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_blank);
    has_constant() || has_blank() || text.contains("%s") || text.contains("%d") || in_braces() || is_choice()
}

/// Whether a text that is not a valid name is made of words for any name or port: `service_name`, `target_port`. Several such
/// texts in an object are values to fill in; a single one may be a name.
pub fn is_generic_name(text: &str) -> bool {
    const WORDS: [&str; 15] = [
        "account",
        "app",
        "application",
        "bucket",
        "cluster",
        "container",
        "deployment",
        "environment",
        "job",
        "pod",
        "project",
        "service",
        "target",
        "user",
        "your",
    ];
    const ENDS: [&str; 9] =
        ["address", "domain", "host", "id", "image", "name", "namespace", "port", "region"];
    let is_word = |word: &str| WORDS.contains(&word) || ENDS.contains(&word);
    text.rsplit_once('_').is_some_and(|(first, last)| ENDS.contains(&last) && first.split('_').all(is_word))
}

/// The first placeholder in a text, with its delimiters.
pub fn find_placeholder(text: &str) -> Option<&str> {
    if !is_placeholder(text) {
        return None;
    }
    if let Some(word) = fill_word(text) {
        return Some(word);
    }
    let between = |open: &str, close: &str| {
        let start = text.find(open)?;
        let end = text[start + open.len()..].find(close)?;
        text.get(start..start + open.len() + end + close.len())
    };
    if text.contains("{{") && text.contains("}}") {
        return between("{{", "}}").or(Some(text));
    }
    between("${", "}").or_else(|| between("$(", ")")).or_else(|| other_placeholder(text)).or_else(|| {
        if text.starts_with('$') {
            return Some(text);
        }
        between("<<", ">>").or_else(|| between("<", ">")).filter(|found| is_placeholder(found)).or(Some(text))
    })
}

fn has_delimited(text: &str, open: &str, close: char) -> bool {
    text.find(open).is_some_and(|at| text[at + open.len()..].contains(close))
}

/// Whether a text contains a name in angle brackets, such as `<cluster-name>`, as opposed to comparisons (`a < b`).
fn has_angle_bracketed(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let Some(end) = rest.find('>') else { return false };
        // `<#Paste the name here>`
        let name = rest[..end].trim_start_matches('#').trim_start();
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
        if name.starts_with(|c: char| c.is_ascii_alphabetic())
            && !name.ends_with(' ')
            && name.chars().all(inner)
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{
        find_braces_in_value, find_brackets_in_value, find_joined_name, find_placeholder,
        find_variable_in_flow, is_generic_name, is_placeholder, is_stand_in, is_word_in_capitals,
        may_contain_placeholder, whole_line_placeholder,
    };

    #[test]
    fn names_in_brackets_are_told_from_lists() {
        for (line, found) in [
            ("  name: [DATA_PRODUCT]-adaptor", "[DATA_PRODUCT]"),
            ("- [TEAM]/app:1", "[TEAM]"),
            ("image: [YOUR-REGISTRY]/app", "[YOUR-REGISTRY]"),
        ] {
            assert_eq!(find_brackets_in_value(line), Some(found), "{line}");
        }
        for line in [
            "a: [B]",
            "a: [TEAM], c",
            "a: [TEAM]: x",
            "a: [team]-x",
            "a: x[TEAM]-y",
            "a: [[TEAM]]",
            "a: [TEAM",
        ] {
            assert_eq!(find_brackets_in_value(line), None, "{line}");
        }
    }

    #[test]
    fn names_in_braces_are_told_from_maps() {
        for (line, found) in [
            ("      image: {username}/torchserve:latest", "{username}"),
            ("availabilityZones: [{REGION}\"a\",{REGION}\"b\"]", "{REGION}"),
            ("- {name}-x", "{name}"),
        ] {
            assert_eq!(find_braces_in_value(line), Some(found), "{line}");
        }
        for line in [
            "a: {b}",
            "a: {b}, c",
            "a: {b: c}/d",
            "a: [{b}, {c}]",
            "a: x{b}/c",
            "a: {{b}}/c",
            "{",
            "a: {b}: c",
        ] {
            assert_eq!(find_braces_in_value(line), None, "{line}");
        }
    }

    #[test]
    fn variables_break_maps_and_lists_in_brackets() {
        for (line, found) in [
            ("  labels: { team: ${TEAM}, tier: ml }", "${TEAM}"),
            ("metadata: { name: quota, namespace: team-${TEAM} }", "${TEAM}"),
            ("  values: [${azs}a] # zones", "${azs}"),
            ("- {key: a, values: [\"x\", ${B}]}", "${B}"),
        ] {
            assert_eq!(find_variable_in_flow(line), Some(found), "{line}");
        }
        for line in [
            "a: ${B}",
            "  if [ -z ${B} ]; then",
            "a: {b: \"${C}\", d",
            "a: [b, c",
            "a: {b: ${c-d}}",
            "a: {${}}",
        ] {
            assert_eq!(find_variable_in_flow(line), None, "{line}");
        }
    }

    #[test]
    fn names_that_are_joined_to_a_key_or_a_quote() {
        for (line, found) in [
            ("          env:HF_TOKEN_ENV", "HF_TOKEN_ENV"),
            ("  - annotations:LB_ANNOTATIONS ", "LB_ANNOTATIONS"),
            ("    cleanPodPolicy: \"All\"LOG_CONFIG", "LOG_CONFIG"),
        ] {
            assert_eq!(find_joined_name(line), Some(found), "{line}");
        }
        for line in [
            "",
            "env: HF_TOKEN",
            "env:TOKEN",
            "echo a:MY_VAR",
            "A_B",
            "say \"All\"A_B",
            "import os",
            "Übung:X_Y",
        ] {
            assert_eq!(find_joined_name(line), None, "{line}");
        }
    }

    #[test]
    fn lines_that_are_placeholders() {
        assert_eq!(whole_line_placeholder("    <ISSUER_ANNOTATION_1>"), Some("<ISSUER_ANNOTATION_1>"));
        assert_eq!(whole_line_placeholder("  ${ANNOTATIONS}"), Some("${ANNOTATIONS}"));
        for line in ["<", "<<: *a", "a: <B>", "<a: b>", "<<<<<<< HEAD", "<b>x</b>"] {
            assert_eq!(whole_line_placeholder(line), None, "{line}");
        }
    }

    #[test]
    fn words_in_capitals() {
        assert!(["PORT", "CRT", "NODE_PORT", "PORT2"].iter().all(|text| is_word_in_capitals(text)));
        assert!(!["", "CA", "Port", "8080", "80A", "A-B-C"].iter().any(|text| is_word_in_capitals(text)));
    }

    #[test]
    fn stand_ins_are_told_from_values() {
        for text in [
            "NAME",
            "APP-vol",
            "NAME.DOMAIN.COM",
            "es-server-INSTANCE_SAFE",
            "jobRUN_NUMBER",
            "restore-TIMESTAMP",
            "ROLLOUT_NAME-active",
            "example.com/APP_NAME:1.0",
        ] {
            assert!(is_stand_in(text, "name"), "{text}");
        }
        for text in
            ["CLUSTER_NAME", "{name}", "{registry}/app", "spot | on-demand", "%s", "web-%s", "{my name}"]
        {
            assert!(is_stand_in(text, "name"), "{text}");
        }
        for text in [
            "",
            "GPU",
            "A_B",
            "NET.IPV4.TCP_SYNCOOKIES",
            "cluster_name",
            "My_Name",
            "{}",
            "{\"a\": 1}",
            "a|b",
            "x | y(z)",
            "50%",
        ] {
            assert!(!is_stand_in(text, "name"), "{text}");
        }
        assert!(["service_name", "service_address", "target_port"].into_iter().all(is_generic_name));
        assert!(!["http_port", "service", "my_name", "name_"].into_iter().any(is_generic_name));
        assert!(is_stand_in("ami-XXXXXXXXXXXXXXXXX", "id") && !is_stand_in("XXL", "id"));
        assert!(is_stand_in("MY_CLASS", "secretName") && !is_stand_in("SYS_ADMIN", "add"));
    }

    #[test]
    fn a_document_that_holds_a_placeholder_may_contain_one() {
        for text in [
            "${X}",
            "<account>",
            "__REGION__",
            "CHANGEME",
            "CHANGE-ME",
            "A_PLACEHOLDER",
            "FILLED BY CI",
            "[[ x ]]",
            "@@X@@",
            "a-%TEAM%",
        ] {
            assert!(is_placeholder(text) && may_contain_placeholder(text), "{text}");
        }
        assert!(may_contain_placeholder("REPLACE_ME") && !may_contain_placeholder("name: web"));
    }

    #[test]
    fn placeholders_are_told_from_text() {
        for text in
            ["${X}", "a-${CLUSTER}-b", "$X", "$(X)", "{{ .Values.x }}", "<account>", "arn:<my account>:x"]
        {
            assert!(is_placeholder(text), "{text}");
        }
        for text in [
            "__REGION__",
            "CHANGEME",
            "CHANGE-ME",
            "arn:aws:iam::ACCOUNT_PLACEHOLDER:role/x",
            "REPLACE_WITH_YOUR_CLUSTER",
            "REPLACE ME",
            "ARM_AMI_ID_TO_REPLACE",
            "FILLED BY CI",
            "[[ .Values.region ]]",
            "web-[[env]]",
            "@@CLUSTER@@",
            "arn:aws:iam::@@account@@:role/x",
            "@IMAGE@",
            "app:@project.version@",
            "%ACCOUNT%",
            "web-%ENV_NAME%",
            "%%REGION%%",
        ] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in [
            "[[ -n \"a\" ]]",
            "[[a, b]]",
            "me@example.com, you@example.com",
            "a@b@c",
            "registry/app@sha256:abc",
            "@hourly",
            "50%",
            "%E2%82%AC",
            "%20HELLO%20",
            "%Y-%m-%d",
            "%START_TIME% %PROTOCOL%",
            "%REQ(:METHOD)% %DATA%",
            "100%CPU 50%",
        ] {
            assert!(!is_placeholder(text), "{text}");
        }
        for text in ["__name__", "CLUSTER_NAME", "REPLACE", "Replace", "PLACE", "__", "FILLER", "x__Y"] {
            assert!(!is_placeholder(text), "{text}");
        }
        for text in ["", "gpu", "$", "$5", "a < b", "a <= b > c", "10$", "{a}", "x{job=\"y\"}", "cost$"] {
            assert!(!is_placeholder(text), "{text}");
            assert_eq!(find_placeholder(text), None, "{text}");
        }
        for (text, found) in [
            ("a-${CLUSTER}-b", "${CLUSTER}"),
            ("$X", "$X"),
            ("x $(Y) z", "$(Y)"),
            ("{{ .Values.x }}-y", "{{ .Values.x }}"),
            ("arn:<my account>:x", "<my account>"),
            ("a-<<CLUSTER>>-b", "<<CLUSTER>>"),
            ("arn:ROLE_PLACEHOLDER:x", "ROLE_PLACEHOLDER"),
            ("a __REGION__ b", "__REGION__"),
            ("web-[[ env ]]-a", "[[ env ]]"),
            ("a-@@CLUSTER@@", "@@CLUSTER@@"),
        ] {
            assert_eq!(find_placeholder(text), Some(found), "{text}");
        }
    }
}
