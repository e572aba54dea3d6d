//! How tokens and keys look, and the names of what holds them.

/// Beginnings of tokens, the least number of characters after them, and who gives them out.
const FORMS: [(&str, usize, &str); 15] = [
    ("hf_", 30, "Hugging Face"),
    ("sk-ant-", 30, "Anthropic"),
    ("sk-proj-", 30, "OpenAI"),
    ("sk-", 40, "OpenAI"),
    ("nvapi-", 40, "NVIDIA"),
    ("ghp_", 36, "GitHub"),
    ("gho_", 36, "GitHub"),
    ("ghs_", 36, "GitHub"),
    ("github_pat_", 40, "GitHub"),
    ("glpat-", 20, "GitLab"),
    ("AKIA", 16, "AWS"),
    ("ASIA", 16, "AWS"),
    ("AIza", 35, "Google"),
    ("xoxb-", 30, "Slack"),
    ("xoxp-", 30, "Slack"),
];

/// Names of variables that hold a token or a key.
const NAMES: [&str; 12] = [
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HUGGINGFACEHUB_API_TOKEN",
    "WANDB_API_KEY",
    "NGC_API_KEY",
    "NGC_CLI_API_KEY",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "VLLM_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "COMET_API_KEY",
    "GITHUB_TOKEN",
];

/// Ends of names of what holds one.
const ENDS: [&str; 9] = [
    "_API_KEY",
    "_SECRET_KEY",
    "_MASTER_KEY",
    "_ACCESS_KEY",
    "_ADMIN_KEY",
    "_SIGNING_KEY",
    "_ENCRYPTION_KEY",
    "_TOKEN",
    "_PASSWORD",
];

/// Beginnings of keys that are made for browsers: of Datadog, Stripe and others, PostHog, Langfuse.
const PUBLIC: [&str; 4] = ["pub", "pk_", "phc_", "pk-lf-"];

/// Parts of values that stand for a token.
const STAND_INS: [&str; 16] = [
    "your",
    "example",
    "token",
    "replace",
    "change",
    "secret",
    "dummy",
    "placeholder",
    "xxx",
    "1234567",
    "insert",
    "abcdef",
    "sample",
    "redacted",
    "<",
    "...",
];

/// Whether a text in lower case stands for a token.
pub(super) fn stands_in(lower: &str) -> bool {
    STAND_INS.iter().any(|part| lower.contains(part))
}

/// The length of the shortest token in bytes.
const MIN_LENGTH: usize = {
    let (mut least, mut at) = (MAX_LENGTH, 0);
    while at < FORMS.len() {
        let (prefix, rest, _) = FORMS[at];
        if prefix.len() + rest < least {
            least = prefix.len() + rest;
        }
        at += 1;
    }
    least
};
/// Maximum length of a token in bytes: those of all vendors are far shorter.
const MAX_LENGTH: usize = 4096;

/// Who gives out the token that a text is, empty if it is not known; `None` if it is none, or stands for one.
pub(super) fn token_in(text: &str) -> Option<&'static str> {
    if !(MIN_LENGTH..=MAX_LENGTH).contains(&text.len()) {
        return None;
    }
    let of_form = FORMS.iter().find_map(|(prefix, least, owner)| {
        let rest = text.strip_prefix(prefix)?;
        // Names of models, packages and metrics begin with `sk-` and `hf_` as well.
        let is_plain = matches!(*prefix, "sk-" | "hf_");
        let is_token = |c: char| c.is_ascii_alphanumeric() || !is_plain && matches!(c, '-' | '_');
        let is_random = || is_varied(rest) || *prefix == "hf_" && are_random_letters(rest);
        (rest.len() >= *least && rest.chars().all(is_token) && is_random()).then_some(*owner)
    });
    of_form.or_else(|| names_of_gateway_key(text).filter(|names| names.is_empty()).map(|_| ""))
}

/// What people put before the random part of a key that gateways to models give out: `team-a` in `sk-team-a-0f3c…`. Branches and
/// tags of images look like a key with names.
fn names_of_gateway_key(text: &str) -> Option<&str> {
    let (names, key) = text.strip_prefix("sk-").map(|rest| rest.rsplit_once('-').unwrap_or(("", rest)))?;
    let is_random = key.len() >= 32 && key.bytes().all(|b| b.is_ascii_hexdigit()) && is_varied(key);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let stands_in = STAND_INS.iter().any(|part| names.contains(part));
    (is_random && names.chars().all(is_name) && !stands_in).then_some(names)
}

/// Whether a value is a word and a long random number behind it: `admin-75b4…`. Names of digests are such words, too.
fn is_named_key(value: &str) -> bool {
    value.rsplit_once('-').is_some_and(|(word, key)| {
        let is_random = key.len() >= 32 && key.bytes().all(|b| b.is_ascii_hexdigit()) && is_varied(key);
        let is_word =
            (2..=24).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        is_random && is_word && !stands_in(word)
    })
}

/// Whether a variable, a field or a parameter holds a token by its name.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = spelled_out(name);
    let ends = |end: &str| name.ends_with(end) || name == end[1..];
    ENDS.iter().any(|end| ends(end)) && !name.contains("PUBLIC")
}

/// The name in capitals, with `_` between its words: `hfToken` is `HF_TOKEN`.
fn spelled_out(name: &str) -> String {
    let name = name.rsplit('.').next().unwrap_or(name);
    let mut out = String::with_capacity(name.len() + 4);
    let mut before = ' ';
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            out.push('_');
        }
        out.push(if c == '-' { '_' } else { c.to_ascii_uppercase() });
        before = c;
    }
    out
}

/// Whether the value of a name that holds a token or a password is one.
pub(super) fn is_secret_of(name: &str, value: &str) -> bool {
    let name = spelled_out(name);
    if PUBLIC.iter().any(|begin| value.starts_with(begin)) {
        return false;
    }
    if names_of_gateway_key(value).is_some() || is_named_key(value) {
        return true;
    }
    if NAMES.contains(&name.as_str()) && looks_random(value, 30) {
        return true;
    }
    let least = if name.ends_with("PASSWORD") { 12 } else { 20 };
    if !looks_random(value, least) || value.contains(['/', '.']) {
        return false;
    }
    let count = |is: fn(&u8) -> bool| value.bytes().filter(is).count();
    let (upper, digits) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_digit));
    let words = value.split(|c: char| !c.is_ascii_lowercase()).any(|part| part.len() >= 5);
    let mixed = upper > 1 && digits > 1 && value.bytes().any(|b| b.is_ascii_lowercase()) && !words;
    // Without capitals it is random if many digits are spread over it, and no `-` separates words.
    let spread =
        value.bytes().all(|b| b.is_ascii_alphanumeric()) && digits >= 6 && !words && value.len() >= 24;
    mixed || spread
}

/// Whether a text is long and random: letters and digits of many kinds, without words that stand for a token.
pub(super) fn looks_random(text: &str, least: usize) -> bool {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '/' | '=' | '.');
    (least..=MAX_LENGTH).contains(&text.len())
        && text.chars().all(is_key)
        && !text.starts_with(['/', '.'])
        && is_varied(text)
}

fn is_varied(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_digit()) && is_of_many_kinds(text)
}

/// Whether the 34 letters of a token of Hugging Face are random: of both cases, with fewer vowels than words have.
fn are_random_letters(text: &str) -> bool {
    let count = |is: fn(&u8) -> bool| text.bytes().filter(is).count();
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let vowels = count(|b| b"aeiouAEIOU".contains(b));
    upper >= 4
        && lower >= 4
        && upper + lower == 34
        && text.len() == 34
        && vowels <= 9
        && is_of_many_kinds(text)
}

fn is_of_many_kinds(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut bytes: Vec<u8> = lower.bytes().collect();
    let letters = bytes.iter().any(u8::is_ascii_alphabetic);
    bytes.sort_unstable();
    bytes.dedup();
    letters && bytes.len() >= 10 && !STAND_INS.iter().any(|word| lower.contains(word))
}
