//! A manifest downloads from a presigned URL, which expires.
//!
//! # Why
//! A presigned URL of S3, Google Cloud Storage, Azure or CloudFront carries a signature and the time until
//! which it is valid: seven days at most for S3 and Google, and less where it was signed with temporary
//! credentials. After it each download is answered with `403 Forbidden`. The first pods start, and those
//! that start later do not: after a rollout, on a new node, for a run that is tried again. Whoever reads
//! the manifest can download the object as well until then.
//!
//! It is a warning where the time has passed, otherwise information.
//!
//! # Fix
//! Name the object itself, such as `s3://bucket/key`, and let the pods read it with a role of their own: EKS Pod
//! Identity, or IRSA. Or bring the files in the image.
//!
//! # Example
//! ```yaml,diff
//!  apiVersion: batch/v1
//!  kind: Job
//!  metadata: {name: load}
//!  spec:
//!    backoffLimit: 2
//!    template:
//!      spec:
//!        restartPolicy: Never
//!        containers:
//!          - name: main
//!            image: example.com/load:1.4.0
//!            args:
//! -            - --from=https://data.s3.amazonaws.com/a.zip?Expires=1577836800&Signature=x # <-
//! +            - --from=s3://data/a.zip
//!            resources: {requests: {cpu: 500m, memory: 512Mi}}
//! ```
//!
//! # References
//! - <https://docs.aws.amazon.com/AmazonS3/latest/userguide/ShareObjectPreSignedURL.html>
//! - <https://cloud.google.com/storage/docs/access-control/signed-urls>
//! - <https://learn.microsoft.com/azure/storage/common/storage-sas-overview>

use std::ops::Range;

use crate::facts::date::Date;
use crate::rules::prelude::*;
use crate::steps;

pub(crate) static RULE: Rule = Rule {
    id: "presigned-url",
    kinds: kinds![[Kind::CONFIG_MAP], WORKLOAD_KINDS],
    docs: docs(include_str!("presigned_url.rs")),
    check: Check::Object(check),
    ..Rule::info(Group::Manifest)
};

fn check(object: &Object, ctx: &mut Context<'_>) -> Option<()> {
    // The objects of a controller have the values of the one that is written.
    if object.is_owned() {
        return None;
    }
    visit(&object.get(if object.is(Kind::CONFIG_MAP) { "data" } else { "spec" }), ctx);
    None
}

/// Visits the texts below a node.
fn visit(node: &Node<'_>, ctx: &mut Context<'_>) {
    steps::take(1);
    if let Some(text) = node.raw_text() {
        in_text(node, text, ctx);
    } else if node.is_sequence() {
        node.items().for_each(|item| visit(&item, ctx));
    } else {
        node.entries().iter().for_each(|(_, value)| visit(value, ctx));
    }
}

/// Reports the first presigned URL of a text.
fn in_text(node: &Node<'_>, text: &str, ctx: &mut Context<'_>) -> Option<()> {
    steps::take(text.len() / 64);
    if !text.contains("://") || !text.contains('?') {
        return None;
    }
    let (part, until) = presigned(text)?;
    let host = crate::facts::url::host(&text[part.clone()]);
    let passed = ctx.settings().today.is_some_and(|today| until < today);
    let (severity, message) = if passed {
        let message =
            format!("the presigned URL of `{}` expired on {until}: downloads fail", ellipsize(host));
        (Severity::Warning, message)
    } else {
        let message = format!("the presigned URL of `{}` expires on {until}", ellipsize(host));
        (Severity::Info, message)
    };
    let object = ctx.object().clone();
    let finding = ctx.report(node, message);
    finding
        .severity(severity)
        .help("name the object itself, and let the pods read it with a role of their own")
        .identified_by(host.to_owned());
    if node.text() == Some(text) {
        finding.at_part(&object, node, part);
    }
    None
}

/// The first presigned URL in a text, and the last day on which it is valid.
fn presigned(text: &str) -> Option<(Range<usize>, Date)> {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ')' | '<' | '>' | '|' | ';');
    text.match_indices("://").find_map(|(at, _)| {
        let start = text[..at].rfind(|c: char| !c.is_ascii_alphanumeric()).map_or(0, |before| before + 1);
        let end = text[at..].find(is_end).map_or(text.len(), |length| at + length);
        let (_, query) = text[start..end].split_once('?')?;
        Some((start..end, expires(query)?))
    })
}

/// The day on which the signature in a query expires.
fn expires(query: &str) -> Option<Date> {
    let fields: Vec<(&str, &str)> = query.split('&').filter_map(|field| field.split_once('=')).collect();
    let field = |name: &str| {
        let found = fields.iter().find(|(key, value)| key.eq_ignore_ascii_case(name) && !value.is_empty());
        found.map(|(_, value)| *value)
    };
    // Version 4 of AWS and of Google: when it was signed, and for how many seconds.
    for vendor in ["X-Amz", "X-Goog"] {
        let named = |name: &str| field(&format!("{vendor}-{name}"));
        if let (Some(_), Some(date), Some(length)) = (named("Signature"), named("Date"), named("Expires")) {
            let day = date.get(..8)?;
            let signed = Date::parse(&format!("{}-{}-{}", &day[..4], &day[4..6], &day[6..8]))?;
            let time = date.get(9..13).and_then(|time| time.parse::<i64>().ok())?;
            let seconds = (time / 100) * 3600 + (time % 100) * 60 + length.parse::<i64>().ok()?;
            return Some(signed.days_later(seconds.div_euclid(86_400)));
        }
    }
    // Version 2 of AWS, and CloudFront: a Unix time.
    if field("Signature").is_some()
        && let Some(seconds) = field("Expires")
    {
        return Some(Date::from_unix_seconds(seconds.parse().ok()?));
    }
    // A shared access signature of Azure: a time in RFC 3339, whose colons may be encoded.
    let (_, until) = (field("sig")?, field("se")?);
    field("sv")?;
    Date::parse(until.get(..10)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_expire() {
        for (text, expected) in [
            ("https://b.s3.amazonaws.com/k?AWSAccessKeyId=A&Signature=x%3D&Expires=1717467719", "2024-06-04"),
            (
                "wget 'https://b.s3.amazonaws.com/k?X-Amz-Date=20260227T230000Z&X-Amz-Expires=7200&X-Amz-Signature=0a'",
                "2026-02-28",
            ),
            (
                "https://storage.googleapis.com/b/k?X-Goog-Date=20251231T000000Z&X-Goog-Expires=604800&X-Goog-Signature=0a",
                "2026-01-07",
            ),
            (
                "https://a.blob.core.windows.net/c/k?sv=2022-11-02&se=2024-05-01T08%3A00%3A00Z&sr=b&sig=x%3D",
                "2024-05-01",
            ),
        ] {
            assert_eq!(
                presigned(text).map(|(_, date)| date.to_string()).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in [
            "https://example.com/search?q=Signature&Expires=soon",
            "https://b.s3.amazonaws.com/k?Expires=1717467719",
            "https://b.s3.amazonaws.com/k?X-Amz-Signature=$SIGNATURE&X-Amz-Date=$DATE&X-Amz-Expires=60",
            "s3://bucket/key?versionId=a",
        ] {
            assert_eq!(presigned(text), None, "{text}");
        }
    }
}
