//! Words that people write for a key of a trigger type, from other tools or from the names of its defaults, and that are not
//! near enough to the key to be taken for a misspelling, and keys that are.

use super::removed::removed_key;
use super::scalers::{KeySource, KeyStatus, Scaler};
use crate::facts::suggest::nearest;

/// Trigger types, words for one of their keys, and the key.
const SYNONYMS: &[(&[&str], &[&str], &str)] = &[
    (&["aws-cloudwatch"], &["statistic", "stat", "defaultMetricStat"], "metricStat"),
    (&["aws-cloudwatch"], &["period", "defaultMetricStatPeriod"], "metricStatPeriod"),
    (
        &["aws-cloudwatch", "aws-dynamodb", "aws-dynamodb-streams", "aws-kinesis-stream", "aws-sqs-queue"],
        &["region"],
        "awsRegion",
    ),
    // The name of KEDA 1, and those of its neighbors.
    (&["azure-servicebus"], &["queueLength"], "messageCount"),
    (&["aws-sqs-queue", "azure-queue"], &["messageCount"], "queueLength"),
];

/// Fields of a trigger that people write into its metadata.
pub(crate) const TRIGGER_FIELDS: [&str; 4] = ["authenticationRef", "metricType", "name", "useCachedMetrics"];

/// Minimum length of a word that is compared with the beginnings of keys.
const SHORTEST_WORD: usize = 4;

/// The key of a trigger type that one which the type does not have is most likely meant to be: a word for it, or nearly its name.
pub(crate) fn intended_key(scaler: &Scaler, written: &str) -> Option<&'static str> {
    if !matches!(scaler.key_status(written), KeyStatus::Unknown)
        || removed_key(scaler.name, written).is_some()
        || TRIGGER_FIELDS.contains(&written)
    {
        return None;
    }
    let known =
        || scaler.keys.iter().filter(|key| key.reads(KeySource::Metadata)).flat_map(|key| key.names());
    meant_key(scaler.name, written)
        .or_else(|| extended(written, known()))
        .or_else(|| nearest(written, known()))
}

/// The only key that begins with a word, as `vhostName` with `vhost`.
fn extended<'k>(written: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let begins = |key: &&str| {
        let start = key.get(..written.len());
        key.len() > written.len() && start.is_some_and(|start| start.eq_ignore_ascii_case(written))
    };
    let mut found = known.filter(begins);
    found.next().filter(|_| found.next().is_none() && written.len() >= SHORTEST_WORD)
}

/// The key of a trigger type that a word stands for.
pub(crate) fn meant_key(kind: &str, written: &str) -> Option<&'static str> {
    let of =
        |(kinds, words, _): &&(&[&str], &[&str], &str)| kinds.contains(&kind) && words.contains(&written);
    SYNONYMS.iter().find(of).map(|(_, _, key)| *key)
}

#[cfg(test)]
mod tests {
    use super::SYNONYMS;
    use crate::keda::scalers::{KeySource, KeyStatus, scaler};
    use crate::platform::Product;

    #[test]
    fn each_word_stands_for_a_key_and_is_none() {
        for (kinds, words, key) in SYNONYMS {
            for kind in *kinds {
                let scaler = scaler(kind, Product::Keda.newest()).expect(kind);
                assert!(scaler.key(key).is_some_and(|key| key.reads(KeySource::Metadata)), "{kind} {key}");
                for word in *words {
                    assert!(matches!(scaler.key_status(word), KeyStatus::Unknown), "{kind} {word}");
                }
            }
        }
    }
}
