//! References to images of containers: `registry.example.com:5000/team/server:v1@sha256:…`. The grammar is that of
//! `distribution/reference`: a colon begins the tag only in the last step of the path.

use crate::platform::Version;

/// The parts of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRef<'a> {
    /// The repository with the host of its registry.
    pub name: &'a str,
    /// The path of the repository in its registry.
    pub repository: &'a str,
    /// The text after the `:` in the last step of the path.
    pub tag: Option<&'a str>,
    /// The text after `@`.
    pub digest: Option<&'a str>,
}

impl<'a> ImageRef<'a> {
    /// Reads a reference. Any text has a name.
    pub fn parse(text: &'a str) -> ImageRef<'a> {
        let (tagged, digest) = match text.split_once('@') {
            Some((tagged, digest)) => (tagged, Some(digest)),
            None => (text, None),
        };
        let last = tagged.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match tagged[last..].find(':') {
            Some(colon) => (&tagged[..last + colon], Some(&tagged[last + colon + 1..])),
            None => (tagged, None),
        };
        let repository = match name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
            _ => name,
        };
        ImageRef { name, repository, tag, digest }
    }

    /// The minor version with which the tag begins: 24.10 for `nvidia/tritonserver:24.10-py3`.
    pub fn version(&self) -> Option<Version> {
        Version::parse(self.tag?.split('-').next()?)
    }

    /// The last step of the path.
    pub fn last(&self) -> &'a str {
        self.repository.rsplit('/').next().unwrap_or(self.repository)
    }

    /// Whether its repository is a known one, in any registry and below any path.
    pub fn is(&self, known: &str) -> bool {
        self.repository.strip_suffix(known).is_some_and(|above| above.is_empty() || above.ends_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::ImageRef;

    #[test]
    fn a_colon_is_a_tag_only_in_the_last_step() {
        for (text, name, repository, tag, digest) in [
            ("redis", "redis", "redis", None, None),
            ("redis:7", "redis", "redis", Some("7"), None),
            ("team/x:1@sha256:a", "team/x", "team/x", Some("1"), Some("sha256:a")),
            ("registry.example.com:5000/team/x", "registry.example.com:5000/team/x", "team/x", None, None),
            (
                "registry.example.com:5000/team/x:1@sha256:a",
                "registry.example.com:5000/team/x",
                "team/x",
                Some("1"),
                Some("sha256:a"),
            ),
            ("localhost/x@sha256:a", "localhost/x", "x", None, Some("sha256:a")),
            ("", "", "", None, None),
        ] {
            assert_eq!(ImageRef::parse(text), ImageRef { name, repository, tag, digest }, "{text}");
        }
    }

    #[test]
    fn a_tag_begins_with_a_version() {
        for (text, version) in [
            ("nvidia/tritonserver:24.10-py3", Some("24.10")),
            ("rayproject/ray:2.49.2-py310-gpu", Some("2.49")),
            ("python:latest", None),
            ("python", None),
            ("python:v3.13.0rc1", None),
        ] {
            let found = ImageRef::parse(text).version().map(|version| version.to_string());
            assert_eq!(found.as_deref(), version, "{text}");
        }
    }

    #[test]
    fn a_mirror_has_the_repository_below_its_path() {
        assert!(ImageRef::parse("mirror.example.com/hub/nvidia/cuda:13").is("nvidia/cuda"));
        assert!(ImageRef::parse("nvidia/cuda").is("nvidia/cuda"));
        assert!(!ImageRef::parse("mynvidia/cuda").is("nvidia/cuda"));
        assert_eq!(ImageRef::parse("example.com:80/a/b:c").last(), "b");
    }
}
