//! A file with the objects that were read from it.

use std::sync::Arc;

use crate::object::Object;
use crate::source::{self, Document, Source};

#[derive(Clone, Debug)]
pub struct File {
    pub source: Arc<Source>,
    /// All documents, including broken ones.
    pub documents: Vec<Document>,
    pub objects: Vec<Object>,
}

impl File {
    pub fn read(source: Source) -> File {
        let source = Arc::new(source);
        let documents = source::read(&source);
        let objects =
            documents.iter().flat_map(|document| Object::from_document(&source, document, false)).collect();
        File { source, documents, objects }
    }
}
