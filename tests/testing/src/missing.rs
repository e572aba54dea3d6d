use std::io::Write as _;

/// Says that a test does nothing, and why. `eprintln!` would be captured by the test runner.
///
/// For work that has to be asked for, such as measurements; what a machine may lack is [`missing`].
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Skips a test whose program or file is missing, and says how to `get` it.
///
/// # Panics
///
/// With `GPULINT_REQUIRE=all`, which `.github/workflows/ci.yml` sets: a job that was meant to have everything must not
/// pass with half of the tests. `CI` does not decide, because `.ci/run` also passes on machines that lack a browser.
pub fn missing(what: &str, get: &str) {
    let why = format!("there is no {what} ({get})");
    let required = std::env::var("GPULINT_REQUIRE").is_ok_and(|required| required == "all");
    assert!(!required, "GPULINT_REQUIRE=all: {why}");
    skipped(&why);
}

/// The folder of the test programs that an environment variable names, or the `part` of it; `None` if it is missing,
/// which [`missing`] reports.
pub fn assets(variable: &str, part: &str, prepare: &str) -> Option<std::path::PathBuf> {
    let folder = std::env::var_os(variable).filter(|folder| !folder.is_empty());
    let path = folder.map(|folder| std::path::PathBuf::from(folder).join(part)).filter(|path| path.exists());
    if path.is_none() {
        missing(format!("{part} in {variable}").trim_start(), &format!("{variable}=$({prepare})"));
    }
    path
}
