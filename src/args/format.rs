//! The formats of `gpulint check`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::parser::ValueSource;
use gpulint_rules::facts::suggest;

/// A report format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    /// Findings with excerpts of the files, for people
    Text,
    /// One line a finding
    Concise,
    /// Everything, for programs; `gpulint schema diagnostics` describes it
    Json,
    /// SARIF 2.1.0, for code scanning of GitHub and for editors
    Sarif,
    /// Workflow commands of GitHub Actions, which annotate the changed files
    Github,
    /// Code Quality of GitLab, which merge requests show
    Gitlab,
    /// JUnit XML, which most CI systems show as tests
    Junit,
    /// The format of reviewdog, which comments on changes in several forges
    Rdjson,
    /// One page with the findings, the NodePools and who lands where, to open in a browser
    Html,
    /// Markdown for a comment on a pull request, or a job summary: at most 60 KB
    Markdown,
}

impl Style {
    /// The name that users write.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A report format and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// The style.
    pub(crate) style: Style,
    /// The file; standard output if absent.
    pub(crate) file: Option<PathBuf>,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        let (name, file) = with_file(text)?;
        match <Style as ValueEnum>::from_str(name, false) {
            Ok(style) => Ok(Format { style, file }),
            Err(_) => {
                let names: Vec<String> = Style::value_variants().iter().map(|style| style.name()).collect();
                let near = suggest::nearest(name, names.iter().map(String::as_str));
                let hint = near.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
                Err(format!("the formats are {}{hint}", list_of_styles()))
            }
        }
    }
}

/// `text, concise and json`
fn list_of_styles() -> String {
    let names: Vec<String> = Style::value_variants().iter().map(|style| style.name()).collect();
    match names.as_slice() {
        [names @ .., last] => format!("{} and {last}", names.join(", ")),
        [] => String::new(),
    }
}

/// Reads a format. The help and the completions show the styles.
#[derive(Clone, Debug)]
pub(super) struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Format, clap::Error> {
        let parser = StringValueParser::new().try_map(|text| text.parse::<Format>());
        parser.parse_ref(command, arg, value)
    }

    /// An empty variable of the environment is one that is not set.
    fn parse_ref_(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<Format, clap::Error> {
        if source == ValueSource::EnvVariable && value.is_empty() {
            return Ok(Format { style: Style::Text, file: None });
        }
        self.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Style::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

/// Splits `FORMAT=FILE`.
pub(super) fn with_file(text: &str) -> Result<(&str, Option<PathBuf>), String> {
    match text.split_once('=') {
        Some((_, "")) => Err("a file name must follow `=`".to_owned()),
        Some((name, file)) => Ok((name, Some(PathBuf::from(file)))),
        None => Ok((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, Style};

    #[test]
    fn formats_name_a_style_and_maybe_a_file() {
        let json: Format = "json=a=b.json".parse().unwrap();
        assert_eq!(json.style, Style::Json);
        assert_eq!(json.file.unwrap().to_str(), Some("a=b.json"));
        assert!("xml".parse::<Format>().is_err());
        assert!("sarf=a".parse::<Format>().unwrap_err().ends_with("; did you mean `sarif`?"));
        assert!("json=".parse::<Format>().is_err());
    }
}
