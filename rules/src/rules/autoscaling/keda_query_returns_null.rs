//! A query of a SQL trigger returns NULL where no row matches.
//!
//! # Why
//! `SUM`, `AVG`, `MIN` and `MAX` over no rows are NULL, unlike `COUNT`. The scalers of PostgreSQL, MySQL, SQL
//! Server and Spanner read the answer as a number, and NULL is none: they fail whenever the queue is empty.
//! KEDA then uses the fallback, or neither scales the workload in nor to zero. Where the query has no
//! condition only an empty table gives NULL, which is an info. Views of the database about itself, such as
//! `pg_stat_activity`, have rows for the query alone, and nothing is said of them.
//!
//! # Fix
//! Give a value for no rows: `COALESCE(SUM(pages), 0)`. It belongs around the aggregate:
//! `SUM(COALESCE(pages, 0))` is NULL as well.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: keda.sh/v1alpha1
//!  kind: ScaledObject
//!  metadata: {name: exports, namespace: billing}
//!  spec:
//!    scaleTargetRef: {name: exports}
//!    minReplicaCount: 0
//!    maxReplicaCount: 12
//!    triggers:
//!      - type: postgresql
//!        metadata:
//!          host: db.billing.svc
//!          port: "5432"
//!          userName: keda
//!          dbName: billing
//!          sslmode: require
//!          passwordFromEnv: DB_PASSWORD
//! -        query: SELECT SUM(pages) FROM exports WHERE state = 'waiting' # <-
//! +        query: SELECT COALESCE(SUM(pages), 0) FROM exports WHERE state = 'waiting'
//!          targetQueryValue: "50"
//! ```
//!
//! # References
//! - <https://keda.sh/docs/latest/scalers/postgresql/>
//! - <https://github.com/kedacore/keda/issues/5686>

use crate::rules::prelude::*;

pub(crate) static RULE: Rule = Rule {
    id: "keda-query-returns-null",
    docs: docs(include_str!("keda_query_returns_null.rs")),
    check: Check::KedaTrigger(check),
    ..Rule::warning(Group::Autoscaling)
};

/// Trigger types that read the first value of a query into a `float64`, or an `int64` for Spanner, which fails for NULL
/// (`getQueryResult` of KEDA 2.21). ClickHouse sums no rows to 0.
const SCANS: [&str; 4] = ["postgresql", "mysql", "mssql", "gcp-spanner"];
/// Aggregates that are NULL over no rows.
const AGGREGATES: [&str; 4] = ["sum", "avg", "min", "max"];
/// Functions that are NULL for NULL.
const KEEP_NULL: [&str; 6] = ["cast", "ceil", "ceiling", "floor", "round", "abs"];
/// Words of expressions that may have a value for NULL, or are queries of their own.
const OPEN_WORDS: [&str; 4] = ["case", "is", "over", "select"];
/// Words with which a query returns other rows than the one of an aggregate over all.
const OTHER_ROWS: [&str; 6] = ["group", "having", "union", "intersect", "except", "over"];
/// How the names of tables and views begin that PostgreSQL, MySQL, SQL Server and Spanner have about themselves.
const CATALOGS: [&str; 6] =
    ["pg_", "information_schema", "performance_schema", "mysql.", "sys.", "spanner_sys."];

fn check(trigger: &Trigger<'_>, ctx: &mut Context<'_>) -> Option<()> {
    trigger.kind().filter(|kind| SCANS.contains(kind))?;
    let query = trigger.metadata().get("query");
    let tokens = tokens(query.text()?)?;
    let (aggregate, has_condition) = null_over_no_rows(&tokens)?;
    let aggregate = aggregate.to_ascii_uppercase();
    let when = if has_condition { "where no row matches" } else { "over an empty table" };
    ctx.report(&query, format!("`{aggregate}` is NULL {when}, which KEDA cannot read: the trigger fails"))
        .help(format!("write `COALESCE({aggregate}(…), 0)`, so that no rows count as a number"))
        .severity(if has_condition { Severity::Warning } else { Severity::Info });
    None
}

/// A part of a query. Texts, numbers and operators are all [`Token::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'q> {
    Word(&'q str),
    Open,
    Close,
    Comma,
    End,
    Other,
}

/// The tokens of a query. `None` where a text or a comment does not end.
fn tokens(query: &str) -> Option<Vec<Token<'_>>> {
    let mut all = Vec::new();
    let mut rest = query.trim_start();
    while let Some(first) = rest.chars().next() {
        let quoted = |end: char| Some(rest[1..].find(end)? + 2);
        let (token, length) = match first {
            '(' => (Some(Token::Open), 1),
            ')' => (Some(Token::Close), 1),
            ',' => (Some(Token::Comma), 1),
            ';' => (Some(Token::End), 1),
            '\'' => (Some(Token::Other), quoted('\'')?),
            '"' | '`' | '[' => {
                let length = quoted(if first == '[' { ']' } else { first })?;
                (Some(Token::Word(&rest[1..length - 1])), length)
            }
            _ if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
            _ if rest.starts_with("/*") => (None, rest.find("*/")? + 2),
            _ if is_of_word(first) => {
                let length = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
                (Some(Token::Word(&rest[..length])), length)
            }
            _ => (Some(Token::Other), first.len_utf8()),
        };
        all.extend(token);
        rest = rest[length..].trim_start();
    }
    Some(all)
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '@' | '#')
}

fn is(word: &str, known: &[&str]) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// The aggregate that makes the answer NULL over no rows, and whether the query has a condition. `None` unless it is one `SELECT`
/// of one value from a table: the rows of a subquery or a function are not known.
fn null_over_no_rows<'q>(tokens: &[Token<'q>]) -> Option<(&'q str, bool)> {
    let tokens = tokens.strip_suffix(&[Token::End]).unwrap_or(tokens);
    let [Token::Word(first), rest @ ..] = tokens else { return None };
    let mut depth = 0i32;
    let mut words = Vec::new();
    for (at, token) in rest.iter().enumerate() {
        match token {
            Token::Open => depth += 1,
            Token::Close => depth -= 1,
            Token::End => return None,
            Token::Word(word) if depth == 0 => words.push((at, *word)),
            _ => {}
        }
    }
    let has = |known: &[&str]| words.iter().any(|(_, word)| is(word, known));
    let from = words.iter().find(|(_, word)| is(word, &["from"]))?.0;
    let is_table = match &rest[from + 1..] {
        [Token::Word(_), Token::Open, ..] => false,
        [Token::Word(table), ..] => {
            !is(table, &["dual", "values", "lateral", "sys"]) && !is_of_catalog(table)
        }
        _ => false,
    };
    if !is(first, &["select"]) || !is_table || has(&OTHER_ROWS) {
        return None;
    }
    Some((sole_aggregate(&rest[..from])?, has(&["where", "filter"])))
}

/// Whether a table or view is one that the database has about itself, with rows that do not depend on those of others.
fn is_of_catalog(table: &str) -> bool {
    let table = table.to_ascii_lowercase();
    table.contains(".sys.") || CATALOGS.iter().any(|start| table.starts_with(start))
}

/// The first aggregate of a selected value that is NULL where all aggregates are. `None` for several values.
fn sole_aggregate<'q>(selected: &[Token<'q>]) -> Option<&'q str> {
    let mut found = None;
    let (mut at, mut depth) = (0, 0i32);
    while let Some(token) = selected.get(at) {
        at += 1;
        match token {
            Token::Word(word) if selected.get(at) == Some(&Token::Open) => {
                let is_aggregate = is(word, &AGGREGATES);
                if is_aggregate || is(word, &["filter"]) {
                    found = found.or(is_aggregate.then_some(*word));
                    at += group_length(&selected[at..])?;
                } else if !is(word, &KEEP_NULL) {
                    return None;
                }
            }
            Token::Word(word) if is(word, &OPEN_WORDS) => return None,
            Token::Comma if depth == 0 => return None,
            Token::Open => depth += 1,
            Token::Close => depth -= 1,
            _ => {}
        }
    }
    found
}

/// The number of tokens of the group in parentheses at the start.
fn group_length(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0i32;
    let end = tokens.iter().position(|token| {
        depth += match token {
            Token::Open => 1,
            Token::Close => -1,
            _ => 0,
        };
        depth == 0
    });
    Some(end? + 1)
}
