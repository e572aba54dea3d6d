//! Whether a container runs a JVM, and the memory that it takes when it starts.

use crate::facts::image::ImageRef;
use crate::facts::quantity::Quantity;
use crate::tree::node::Node;
use crate::workload::command::{Word, base_name, words, words_of_text};
use crate::workload::environment::variable;
use crate::workload::image::image_of;

/// Variables with options of a JVM, in the order in which they count: it reads the first itself, its launcher the second, and the others
/// are put on the command line by start scripts of Tomcat, Kafka, Elasticsearch and most images.
const VARIABLES: [&str; 6] = [
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JAVA_OPTS",
    "CATALINA_OPTS",
    "KAFKA_HEAP_OPTS",
    "ES_JAVA_OPTS",
];

/// Words in the names of images of programs that run in a JVM.
const PROGRAMS: [&str; 18] = [
    "activemq",
    "cassandra",
    "confluence",
    "hertzbeat",
    "java",
    "jdk",
    "jenkins",
    "jira",
    "jre",
    "kafka",
    "keycloak",
    "nexus3",
    "openjdk",
    "solr",
    "sonarqube",
    "spring",
    "tomcat",
    "wildfly",
];

/// Whether a container runs a JVM, as far as its variables, its command and the name of its image show.
pub(crate) fn runs_java(container: &Node<'_>) -> bool {
    let is_set = |name: &&str| container.get("env").items().any(|one| one.get("name").text() == Some(*name));
    let is_program = || words(container).first().is_some_and(|word| base_name(&word.text) == "java");
    let is_called_so = |image: ImageRef<'_>| {
        let name = image.last().to_ascii_lowercase();
        name.split(['-', '_', '.']).any(|word| PROGRAMS.contains(&word))
    };
    VARIABLES.iter().any(is_set) || is_program() || image_of(container).is_some_and(is_called_so)
}

/// The share of the memory limit that a heap has at most, unless it is written (`MaxRAMPercentage`, HotSpot of Java 10 to 25).
const DEFAULT_MOST: f64 = 25.0;
/// The least limit, in bytes, for which that holds: below it a JVM takes a larger share (`MinRAMPercentage`).
const SMALL: f64 = 512.0 * 1024.0 * 1024.0;

/// A heap of which a JVM touches the first part when it starts, so that it is in memory.
#[derive(Clone, Debug)]
pub(crate) struct Heap<'a> {
    pub(crate) bytes: i128,
    /// The text with the option that says so.
    pub(crate) node: Node<'a>,
}

/// The heap that the JVM of a container touches at its start: its initial size with `AlwaysPreTouch`. `None` if it touches none, or that
/// is not known.
pub(crate) fn touched_heap<'a>(container: &Node<'a>) -> Option<Heap<'a>> {
    let mut all: Vec<Word<'a>> = Vec::new();
    for name in VARIABLES {
        if let Some((text, node)) = variable(container, name)? {
            all.extend(words_of_text(&text, &node));
        }
    }
    all.extend(words(container));
    // A variable may stand for options, but for the program.
    let is_program = |at: usize| at > 0 && ["-jar", "-cp", "-classpath"].contains(&all[at - 1].text.as_str());
    let may_be_options =
        |(at, word): (usize, &Word<'_>)| !word.known && !word.text.starts_with('-') && !is_program(at);
    if all.iter().enumerate().any(may_be_options) {
        return None;
    }
    // The last of several counts.
    let flag =
        |name: &str| all.iter().rev().find_map(|word| word.text.strip_prefix("-XX:")?.strip_suffix(name));
    let value = |prefixes: &[&str]| {
        all.iter().rev().find_map(|word| {
            let value = prefixes.iter().find_map(|prefix| word.text.strip_prefix(prefix))?;
            Some((value.to_owned(), word))
        })
    };
    if flag("AlwaysPreTouch") != Some("+") || value(&["-XX:MaxRAM=", "-XX:Flags=", "@"]).is_some() {
        return None;
    }
    if let Some((text, word)) = value(&["-Xms", "-XX:InitialHeapSize="]) {
        return Some(Heap { bytes: size(&text)?, node: word.node.clone() });
    }
    let (text, word) = value(&["-XX:InitialRAMPercentage="])?;
    let limit = Quantity::at(&container.path(&["resources", "limits", "memory"]))?.value() as f64;
    let most = match value(&["-Xmx", "-XX:MaxHeapSize="]) {
        Some((text, _)) => size(&text)? as f64,
        None => {
            let share = value(&["-XX:MaxRAMPercentage="]);
            limit / 100.0 * share.map_or(Some(DEFAULT_MOST), |(text, _)| text.parse().ok())?
        }
    };
    let first = (limit / 100.0 * text.parse::<f64>().ok()?).min(most);
    (limit >= SMALL && first >= 0.0).then(|| Heap { bytes: first as i128, node: word.node.clone() })
}

/// A size as a JVM reads it: `512m` are 512 MiB.
fn size(text: &str) -> Option<i128> {
    let (number, shift) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 10),
        b'm' => (&text[..text.len() - 1], 20),
        b'g' => (&text[..text.len() - 1], 30),
        b't' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    number.parse::<u32>().ok().map(|number| i128::from(number) << shift)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tree::Tree;

    #[test]
    fn heaps_are_touched_at_the_start_where_the_options_say_so() {
        let mebibytes = |options: &str, args: &[&str]| {
            let tree = Tree::from_json(&json!({
                "env": [{"name": "JAVA_TOOL_OPTIONS", "value": options}],
                "args": args,
                "resources": {"limits": {"memory": "4Gi"}},
            }));
            touched_heap(&Node::new(&tree, 0)).map(|heap| heap.bytes >> 20)
        };
        assert_eq!(mebibytes("-Xms3g -XX:+AlwaysPreTouch", &[]), Some(3072));
        assert_eq!(
            mebibytes("-Xms3g -XX:+AlwaysPreTouch", &["java", "-Xms512M", "-jar", "a.jar"]),
            Some(512)
        );
        assert_eq!(mebibytes("-Xms3g -XX:+AlwaysPreTouch", &["java", "-XX:-AlwaysPreTouch"]), None);
        assert_eq!(mebibytes("-Xms3g", &[]), None);
        assert_eq!(mebibytes("-Xms$HEAP -XX:+AlwaysPreTouch", &[]), None);
        assert_eq!(mebibytes("-Xms3g -XX:+AlwaysPreTouch", &["java", "$OPTIONS", "-jar", "a.jar"]), None);
        assert_eq!(mebibytes("-Xms3g -XX:+AlwaysPreTouch", &["java", "-jar", "$JAR"]), Some(3072));
        let percent = "-XX:+AlwaysPreTouch -XX:InitialRAMPercentage=75";
        assert_eq!(mebibytes(percent, &[]), Some(1024));
        assert_eq!(mebibytes(percent, &["java", "-XX:MaxRAMPercentage=75.0"]), Some(3072));
        assert_eq!(mebibytes(percent, &["java", "-Xmx2g"]), Some(2048));
    }

    #[test]
    fn sizes_have_letters() {
        assert_eq!(size("1024"), Some(1024));
        assert_eq!(size("2K"), Some(2048));
        assert_eq!(size("1t"), Some(1 << 40));
        assert_eq!(size("$HEAP"), None);
    }
}
