//! `gpulint docs`: generates the pages of the manual from the rule table, the schemas and the arguments.
//! `docs/` contains the other pages, and mdBook builds one site from all.

mod commands;
mod configuration;
#[cfg(feature = "webhook")]
mod permissions;
mod rules;

use std::fs;
use std::process::ExitCode;

use crate::args::DocsArgs;
use crate::error::CliError;
use crate::report;

use super::schema;

/// A page: its path in the folder of the manual, and its text.
type Page = (String, String);

/// Writes the pages. A file that is up to date is not written.
pub(crate) fn run(args: &DocsArgs) -> Result<ExitCode, CliError> {
    for (name, text) in pages()? {
        let path = args.out.join(name);
        if fs::read_to_string(&path).is_ok_and(|known| known == text) {
            continue;
        }
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        written.map_err(|error| CliError::Usage(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn pages() -> Result<Vec<Page>, CliError> {
    let mut pages = rules::pages();
    pages.push(("reference/configuration.md".to_owned(), configuration::page()));
    pages.push(("reference/command-line.md".to_owned(), commands::page()));
    #[cfg(feature = "webhook")]
    pages.push(("reference/permissions.md".to_owned(), permissions::page()));
    // The schemas are published at the addresses in their `$id`.
    for (name, text) in [
        ("config", schema::config()?),
        ("diagnostics.v1", report::DIAGNOSTICS_SCHEMA.to_owned()),
        ("why.v1", report::WHY_SCHEMA.to_owned()),
        ("pools.v1", report::POOLS_SCHEMA.to_owned()),
        ("plan.v1", report::PLAN_SCHEMA.to_owned()),
    ] {
        pages.push((format!("schemas/{name}.json"), text));
    }
    Ok(pages)
}

/// Escapes a text for a paragraph of Markdown, except code in backticks.
fn prose(text: &str) -> String {
    let mut code = false;
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        code ^= letter == '`';
        match letter {
            '<' if !code => out.push_str("&lt;"),
            '*' | '[' | ']' if !code => out.extend(['\\', letter]),
            _ => out.push(letter),
        }
    }
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::{cell, prose};

    #[test]
    fn prose_is_not_markup_and_code_stays() {
        assert_eq!(prose("a <b> `<c> *` [default: *]"), "a &lt;b> `<c> *` \\[default: \\*\\]");
        assert_eq!(cell("a|b\nc"), "a\\|b c");
    }
}
