//! The reader: text to documents.
//!
//! A [`Source`] is the text of a file with its path. [`read`] splits it into [`Document`]s, each with a
//! [`Tree`] and the diagnostics of the reader. Byte offsets are used here and in `lint::fix::text`; other
//! modules use pointers.

mod build;
mod fast_path;
mod go_yaml;
mod granit;
mod line;
mod syntax_error;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::facts::image::ImageRef;
use crate::tree::node::Node;
use crate::tree::{Span, Tree};

pub use granit::parse_chunk;
pub use granit::{parse_manifest, split_documents};
pub use line::{LineIndex, Position};

/// Maximum size of a file in bytes: 256 MiB.
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, with or without a byte order mark.
    Utf8,
    /// UTF-16, detected by its byte order mark.
    Utf16,
}

/// Selects the objects to which a patch of a kustomization applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchTarget {
    /// The kind; `None` for any.
    pub kind: Option<String>,
    /// The name; `None` for any.
    pub name: Option<String>,
    pub replicas: PatchedReplicas,
    /// The fields that it sets or removes, each with the steps to it; `[NAME]` is the item of a list with this name.
    pub fields: Vec<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchedReplicas {
    #[default]
    Kept,
    /// It sets or removes the number, and may change other fields.
    Set,
    /// It sets the number and changes nothing else, as `replicas` of a kustomization does.
    Only,
}

impl PatchTarget {
    /// Whether objects of this kind and name are among those that are selected.
    pub fn fits(&self, kind: &str, name: &str) -> bool {
        let fits = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        fits(&self.kind, kind) && fits(&self.name, name)
    }
}

/// A change of the images of one name, as `images` of a kustomization makes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageChange {
    /// The name of the image as it is written, without tag and digest.
    pub name: String,
    pub new_name: Option<String>,
    pub tag: Option<String>,
    pub digest: Option<String>,
    /// What makes it, for messages: a file, or an object of a GitOps controller.
    pub by: Arc<str>,
}

impl ImageChange {
    /// Reads an entry of `images` of a kustomization, or of a Kustomization of Flux.
    pub fn of_entry(entry: &Node<'_>, by: &Arc<str>) -> Option<ImageChange> {
        let text =
            |field: &str| entry.get(field).raw_text().filter(|text| !text.is_empty()).map(str::to_owned);
        let (new_name, tag, digest) = (text("newName"), text("newTag"), text("digest"));
        Some(ImageChange { name: text("name")?, new_name, tag, digest, by: Arc::clone(by) })
    }

    /// Reads an entry of `kustomize.images` of an Argo CD source, as `kustomize edit set image` takes it: `NAME:TAG`,
    /// `NAME@DIGEST`, or `NAME=` before such an image.
    pub fn of_argument(text: &str, by: &Arc<str>) -> ImageChange {
        let owned = |text: &str| text.to_owned();
        let (name, image) = text.split_once('=').map_or((None, text), |(name, image)| (Some(name), image));
        let image = ImageRef::parse(image);
        ImageChange {
            name: owned(name.unwrap_or(image.name)),
            new_name: name.map(|_| owned(image.name)),
            tag: image.tag.map(owned),
            digest: image.digest.map(owned),
            by: Arc::clone(by),
        }
    }

    /// The image that it makes of another one; `None` if it does not change that. A tag replaces a digest as well (kustomize 5,
    /// `api/filters/imagetag/updater.go`).
    pub fn of(&self, image: &str) -> Option<String> {
        let written = ImageRef::parse(image);
        if written.name != self.name {
            return None;
        }
        let (tag, digest) = match (self.tag.as_deref(), self.digest.as_deref()) {
            (None, None) => (written.tag, written.digest),
            new => new,
        };
        let mut out = self.new_name.clone().unwrap_or_else(|| self.name.clone());
        out.extend(tag.into_iter().flat_map(|tag| [":", tag]));
        out.extend(digest.into_iter().flat_map(|digest| ["@", digest]));
        (out != image).then_some(out)
    }
}

/// A path of kustomizations from a root to a file: the root lists the file, or a kustomization that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KustomizeRoute {
    /// The folder of the root.
    pub root: Arc<str>,
    /// The namespace that the outermost kustomization on the path sets.
    pub namespace: Option<Arc<str>>,
    /// The prefixes and suffixes that the kustomizations on the path add to names.
    pub affixes: Arc<str>,
    /// Whether a kustomization on the path adds a prefix or a suffix to names.
    pub renames: bool,
}

/// A placeholder that is filled in by something in the input before the file is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilledPlaceholder {
    /// All placeholders of one syntax, by their beginning: `${`, `$(`, `{{`.
    Syntax(&'static str),
    Exact(String),
    /// All placeholders with this text, which a program replaces.
    Part(String),
    /// All placeholders in the objects of this kind and name.
    Object(PatchTarget),
    /// The tag of an image, by its name without tag.
    Image(String),
    /// Labels of pods, and selectors with them.
    Labels,
    /// An annotation of all objects and of their pods, by its key.
    Annotation(String),
    /// A label of all objects, by its key.
    Label(String),
    /// A label of all objects and their pods that selectors get as well, by its key, with its value.
    Selector(String, String),
}

/// Names of folders with manifests that are examples.
const EXAMPLES: [&str; 20] = [
    "benchmark",
    "benchmarks",
    "demo",
    "demos",
    "doc",
    "docs",
    "e2e",
    "example",
    "examples",
    "experiments",
    "quickstart",
    "regression",
    "sample",
    "samples",
    "test",
    "testdata",
    "tests",
    "tutorial",
    "tutorials",
    "workshop",
];

#[must_use]
#[derive(Debug)]
pub struct Source {
    path: Arc<str>,
    /// The path that globs of the configuration are matched against.
    scope: Arc<str>,
    text: Arc<String>,
    encoding: Encoding,
    /// Offsets of bytes that are not valid UTF-8. The text has `?` in their place.
    invalid: Vec<usize>,
    kustomized: bool,
    left_out: bool,
    patch_targets: Arc<[PatchTarget]>,
    routes: Arc<[KustomizeRoute]>,
    filled: Arc<[FilledPlaceholder]>,
    lines: OnceLock<LineIndex>,
    chunks: OnceLock<Vec<Range<usize>>>,
    written_lines: OnceLock<Vec<u32>>,
    shows_status: OnceLock<bool>,
}

impl Source {
    /// Decodes bytes as UTF-8, or as UTF-16 if they start with its byte order mark. The offsets of invalid
    /// bytes are kept, so that documents without them can still be checked.
    pub fn new(path: &str, bytes: Vec<u8>) -> Source {
        let (text, encoding, invalid) = match bytes.as_slice() {
            [0xFF, 0xFE, rest @ ..] => (utf16(rest, u16::from_le_bytes), Encoding::Utf16, vec![]),
            [0xFE, 0xFF, rest @ ..] => (utf16(rest, u16::from_be_bytes), Encoding::Utf16, vec![]),
            _ => {
                let (text, invalid) = utf8(bytes);
                (text, Encoding::Utf8, invalid)
            }
        };
        Source {
            path: Arc::from(path),
            scope: Arc::from(path),
            text: Arc::new(text),
            encoding,
            invalid,
            kustomized: false,
            left_out: false,
            patch_targets: Arc::default(),
            routes: Arc::default(),
            filled: Arc::default(),
            lines: OnceLock::new(),
            chunks: OnceLock::new(),
            written_lines: OnceLock::new(),
            shows_status: OnceLock::new(),
        }
    }

    /// Creates a source from text, for tests, documentation and editor buffers.
    pub fn from_text(path: &str, text: &str) -> Source {
        Source::new(path, text.as_bytes().to_vec())
    }

    /// The path as it is shown to users.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// [`Source::path`], to be kept.
    pub fn shared_path(&self) -> Arc<str> {
        Arc::clone(&self.path)
    }

    /// Whether a folder in the path marks the file as an example.
    pub fn is_example(&self) -> bool {
        self.path.rsplit('/').skip(1).any(|folder| EXAMPLES.contains(&folder))
    }

    /// Whether the name of the file or of a folder says that it is a template: `job.tmpl.yaml`, `job.yaml.tpl`, `job-template.yaml`,
    /// `templates/`, `skeleton/` of Backstage, or a folder whose name is itself a placeholder.
    pub fn is_template(&self) -> bool {
        const FOLDERS: [&str; 10] = [
            "template",
            "templates",
            "skeleton",
            "skeletons",
            "scaffold",
            "scaffolds",
            "scaffolding",
            "boilerplate",
            "cookiecutter",
            "stubs",
        ];
        const ENDS: [&str; 8] =
            [".tmpl", ".tpl", ".tftpl", ".envsubst", ".template", "-template", "_template", "-tmpl"];
        let stem = self.path.rsplit_once('.').map_or(&*self.path, |(stem, _)| stem);
        let mut folders = self.path.rsplit('/').skip(1);
        let is_folder = |one: &str| {
            FOLDERS.contains(&one.trim_start_matches(['_', '.']))
                || one.ends_with("-templates")
                || one.contains("{{")
        };
        folders.any(is_folder) || ENDS.iter().any(|end| stem.ends_with(end) || self.path.ends_with(end))
    }

    /// Whether the text is that of manifests in a file of another language, from which they cannot be written back: Terraform.
    pub fn is_embedded(&self) -> bool {
        [".tf", ".tofu"].iter().any(|end| self.path.ends_with(end))
    }

    /// Sets the path that globs of the configuration are matched against, relative to its folder.
    pub fn with_scope(mut self, path: &str) -> Source {
        self.scope = Arc::from(path);
        self
    }

    /// Marks the file as a resource of a kustomization, which may add namespaces, labels and selectors.
    pub fn with_kustomized(mut self, kustomized: bool) -> Source {
        self.kustomized = kustomized;
        self
    }

    /// Marks the file as one that the kustomization of its folder does not list, so that it is probably not applied.
    pub fn with_left_out(mut self, left_out: bool) -> Source {
        self.left_out = left_out;
        self
    }

    /// Whether the kustomization of its folder does not list the file.
    pub fn is_left_out(&self) -> bool {
        self.left_out
    }

    /// Sets the targets of the patches that a kustomization applies to the file.
    pub fn with_patches(mut self, targets: impl Into<Arc<[PatchTarget]>>) -> Source {
        self.patch_targets = targets.into();
        self
    }

    /// Sets the kustomizations that reach the file.
    pub fn with_routes(mut self, routes: impl Into<Arc<[KustomizeRoute]>>) -> Source {
        self.routes = routes.into();
        self
    }

    /// Sets the placeholders that are filled in before the file is applied.
    pub fn with_filled(mut self, filled: impl Into<Arc<[FilledPlaceholder]>>) -> Source {
        self.filled = filled.into();
        self
    }

    /// Records, for a text that a program printed, the line of the user's file at which each document is written, counted
    /// from 1.
    pub fn set_written_lines(&self, lines: Vec<u32>) {
        // The first call counts: the text does not change.
        let _ = self.written_lines.set(lines);
    }

    /// The line of the user's file at which a document is written. `None` if the text is the user's own.
    pub fn written_line(&self, document: u32) -> Option<u32> {
        self.written_lines.get()?.get(document as usize).copied()
    }

    /// Whether what is parsed from both is equal: one text at one path, in equal surroundings.
    #[must_use]
    pub fn is_same(&self, other: &Source) -> bool {
        let Source { path, scope, text, encoding, invalid, kustomized, left_out, .. } = self;
        *text == other.text
            && *path == other.path
            && *scope == other.scope
            && *encoding == other.encoding
            && *invalid == other.invalid
            && *kustomized == other.kustomized
            && *left_out == other.left_out
            && self.patch_targets == other.patch_targets
            && self.routes == other.routes
            && self.filled == other.filled
    }

    /// Whether a kustomization patches any object of the file.
    pub fn has_patch_targets(&self) -> bool {
        !self.patch_targets.is_empty()
    }

    /// The patches of kustomizations for objects of this kind and name.
    pub fn patches_of(&self, kind: &str, name: &str) -> impl Iterator<Item = &PatchTarget> {
        self.patch_targets.iter().filter(move |target| target.fits(kind, name))
    }

    /// Whether a kustomization patches objects of this kind and name.
    pub fn is_patched(&self, kind: &str, name: &str) -> bool {
        self.patches_of(kind, name).any(|target| target.replicas != PatchedReplicas::Only)
    }

    /// Whether a kustomization sets the number of replicas of objects of this kind and name.
    pub fn is_scaled(&self, kind: &str, name: &str) -> bool {
        self.patches_of(kind, name).any(|target| target.replicas != PatchedReplicas::Kept)
    }

    /// The kustomizations that reach the file.
    pub fn routes(&self) -> &[KustomizeRoute] {
        &self.routes
    }

    /// Whether a placeholder of an object of this kind and name is filled in by something in the input.
    pub fn is_filled(&self, placeholder: &str, kind: &str, name: &str) -> bool {
        self.filled.iter().any(|filled| match filled {
            FilledPlaceholder::Syntax(start) => placeholder.starts_with(start),
            FilledPlaceholder::Exact(text) => placeholder == text,
            FilledPlaceholder::Part(text) => placeholder.contains(text.as_str()),
            FilledPlaceholder::Object(target) => target.fits(kind, name),
            FilledPlaceholder::Image(_)
            | FilledPlaceholder::Labels
            | FilledPlaceholder::Annotation(_)
            | FilledPlaceholder::Label(_)
            | FilledPlaceholder::Selector(..) => false,
        })
    }

    /// Whether a kustomization of the input adds labels to pods or selectors.
    pub fn sets_labels(&self) -> bool {
        self.filled.contains(&FilledPlaceholder::Labels)
    }

    /// Whether a kustomization of the input adds an annotation to objects and their pods.
    pub fn sets_annotation(&self, key: &str) -> bool {
        self.filled.iter().any(|filled| matches!(filled, FilledPlaceholder::Annotation(own) if own == key))
    }

    /// Whether a kustomization of the input sets a label of all objects whose key begins so.
    pub fn sets_label(&self, begin: &str) -> bool {
        self.filled
            .iter()
            .any(|filled| matches!(filled, FilledPlaceholder::Label(key) if key.starts_with(begin)))
    }

    /// The value that a kustomization of the input writes for a label into all selectors and pods.
    pub fn selector_override(&self, key: &str) -> Option<&str> {
        self.filled.iter().find_map(|filled| match filled {
            FilledPlaceholder::Selector(own, value) if own == key => Some(value.as_str()),
            _ => None,
        })
    }

    /// Whether a kustomization of the input sets the tag of this image.
    pub fn sets_tag_of(&self, image: &str) -> bool {
        self.filled.iter().any(|filled| matches!(filled, FilledPlaceholder::Image(name) if name == image))
    }

    /// Whether the file is a resource of a kustomization.
    pub fn is_kustomized(&self) -> bool {
        self.kustomized
    }

    /// The path that globs of the configuration are matched against; without a configuration,
    /// [`Source::path`].
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Whether a line of the text begins the `status` of an object or of an item of a List, as `kubectl get` prints it: the file shows
    /// what a cluster had.
    pub fn shows_status(&self) -> bool {
        let begins = |line: &str| {
            let key = line.trim_start_matches(' ');
            line.len() - key.len() <= 4 && key.starts_with("status:") || key.starts_with("\"status\": {")
        };
        *self.shows_status.get_or_init(|| self.text.lines().any(begins))
    }

    /// The text. A UTF-8 byte order mark is kept, so that offsets equal those on disk.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn text_arc(&self) -> &Arc<String> {
        &self.text
    }

    /// The index of lines and columns, built on first use.
    pub fn lines(&self) -> &LineIndex {
        self.lines.get_or_init(|| LineIndex::new(&self.text))
    }

    /// Whether the text equals the file byte for byte.
    pub fn is_utf8(&self) -> bool {
        self.encoding == Encoding::Utf8 && self.invalid.is_empty()
    }

    /// The chunk of the text, as made by [`split_documents`], that contains an offset.
    pub fn chunk_of(&self, at: u32) -> Range<usize> {
        let parts = self.chunks.get_or_init(|| split_documents(&self.text));
        let after = parts.partition_point(|part| part.start <= at as usize);
        parts.get(after.saturating_sub(1)).cloned().unwrap_or(0..self.text.len())
    }

    /// Converts an offset in the text to one in the file. They differ for UTF-16.
    pub fn disk_offset(&self, at: u32) -> u64 {
        match self.encoding {
            Encoding::Utf8 => u64::from(at),
            Encoding::Utf16 => {
                let units: usize = self.text[..at as usize].chars().map(char::len_utf16).sum();
                2 + 2 * units as u64
            }
        }
    }

    pub(crate) fn invalid_byte_in(&self, part: &Range<usize>) -> Option<usize> {
        self.invalid.iter().copied().find(|at| part.contains(at))
    }
}

fn utf8(bytes: Vec<u8>) -> (String, Vec<usize>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, Vec::new()),
        Err(error) => {
            let mut bytes = error.into_bytes();
            let mut invalid = Vec::new();
            let mut from = 0;
            while let Err(e) = std::str::from_utf8(&bytes[from..]) {
                let at = from + e.valid_up_to();
                let width = e.error_len().unwrap_or(bytes.len() - at).max(1);
                invalid.push(at);
                bytes[at..at + width].fill(b'?');
                from = at + width;
            }
            (String::from_utf8(bytes).expect("every invalid byte was replaced"), invalid)
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|c| unit([c[0], c[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Kinds of problems that the parser reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseDiagnosticKind {
    /// The document does not parse, or contains a value without a JSON form.
    Syntax,
    /// A key is repeated in a mapping; the last value is used.
    DuplicateKey {
        /// Whether both values are equal, so that no value is lost.
        equal: bool,
    },
    /// Nesting, aliases or size exceed a limit.
    Limit,
    /// Text after the document end marker `...`, which Kubernetes ignores.
    TextAfterEnd,
    /// A kustomization lists a file that does not exist.
    MissingFile,
}

/// A problem that the parser found in a document.
#[derive(Clone, Debug)]
pub struct ParseDiagnostic {
    pub kind: ParseDiagnosticKind,
    pub span: Span,
    /// One sentence, in lower case and without a full stop.
    pub message: String,
    /// The help, in the same form. `None` if the kind has a fixed one.
    pub help: Option<&'static str>,
    /// A related position: the first of two equal keys, the anchor of a cycle.
    pub other: Option<Span>,
    /// The keys on the path to a repeated key, without the positions of list items.
    pub key_path: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Document {
    /// Its number among the non-empty documents of the file, from 0.
    pub number: u32,
    pub span: Span,
    /// `None` if the document does not parse.
    pub tree: Option<Arc<Tree>>,
    /// The problems that the parser found, in text order.
    pub diagnostics: Vec<ParseDiagnostic>,
    /// Comments with gpulint directives, including `#`.
    pub comments: Vec<Span>,
}

impl Document {
    /// The root node; `None` if the document does not parse.
    pub fn root(&self) -> Option<Node<'_>> {
        self.tree.as_deref().map(|tree| Node::new(tree, 0))
    }

    fn broken(span: Span, problem: ParseDiagnostic) -> Document {
        Document { number: 0, span, tree: None, diagnostics: vec![problem], comments: Vec::new() }
    }
}

/// Reads all documents of a source sequentially.
pub fn read(source: &Source) -> Vec<Document> {
    assign_numbers(split_documents(source.text()).into_iter().map(|part| parse_chunk(source, part)))
}

/// Numbers the documents of a file, whose chunks are given in order.
pub fn assign_numbers(parts: impl Iterator<Item = Vec<Document>>) -> Vec<Document> {
    let mut documents: Vec<Document> = parts.flatten().collect();
    for (number, document) in documents.iter_mut().enumerate() {
        document.number = u32::try_from(number).unwrap_or(u32::MAX);
    }
    documents
}

/// Calls a function with the root of the YAML text in a field, if it parses.
pub fn with_embedded<T>(text: &str, read: impl FnOnce(&Node<'_>) -> Option<T>) -> Option<T> {
    let source = Source::from_text("", text);
    let documents = parse_chunk(&source, 0..text.len());
    read(&documents.first()?.root()?)
}
