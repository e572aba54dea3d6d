//! A schema, and what is compiled from it on first use: the acceptor, which is enough for most objects, and
//! the jsonschema validator, which finds the violations of the others.
//!
//! Types that schemas refer to are schemas of their own, because kinds share most of them and an object
//! contains values of few. A validator of Pod with all its types takes 4.8 ms to build.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use jsonschema::Validator;
use serde_json::Value;

use crate::steps;
use crate::tree::Tree;

use super::acceptor::{Acceptance, Acceptor, ValidationOptions};
use super::instance::{TreeJson, TreeNode};
use super::{keywords, structural};

pub(super) struct CompiledSchema {
    schema: Box<dyn Fn() -> Value + Send + Sync>,
    acceptor: OnceLock<Acceptor>,
    /// `None` if the schema is not valid.
    validator: OnceLock<Option<Validator<TreeJson>>>,
}

impl fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledSchema").finish_non_exhaustive()
    }
}

/// The types that schemas refer to, by the value of [`keywords::TYPE_KEYWORD`].
static TYPES: LazyLock<Mutex<HashMap<String, Arc<CompiledSchema>>>> = LazyLock::new(Mutex::default);

impl CompiledSchema {
    /// Takes a function that creates the schema. It is called for each compilation, so that the schema itself
    /// is not kept in memory.
    pub(super) fn new(schema: impl Fn() -> Value + Send + Sync + 'static) -> CompiledSchema {
        CompiledSchema { schema: Box::new(schema), acceptor: OnceLock::new(), validator: OnceLock::new() }
    }

    /// The schema of a type, by the value of [`keywords::TYPE_KEYWORD`].
    pub(super) fn of_type(reference: &str) -> Arc<CompiledSchema> {
        let mut types = TYPES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = types.get(reference) {
            return Arc::clone(known);
        }
        let name = reference.to_owned();
        let new = Arc::new(CompiledSchema::new(move || structural::of_type(&name)));
        types.insert(reference.to_owned(), Arc::clone(&new));
        new
    }

    /// The JSON Schema, without the types that it refers to.
    pub(super) fn json_schema(&self) -> Value {
        (self.schema)()
    }

    pub(super) fn acceptor(&self) -> &Acceptor {
        self.acceptor.get_or_init(|| steps::unlimited(|| Acceptor::new(&self.json_schema())))
    }

    pub(super) fn validator(&self) -> Option<&Validator<TreeJson>> {
        let build = || steps::unlimited(|| keywords::validator(&self.json_schema()));
        self.validator.get_or_init(build).as_ref()
    }

    pub(super) fn accepts(&self, tree: &Tree, slot: u32, options: ValidationOptions) -> Acceptance {
        self.acceptor().accepts(tree, slot, options)
    }

    pub(super) fn is_valid(&self, value: TreeNode<'_>) -> bool {
        self.validator().is_none_or(|validator| validator.is_valid(value))
    }
}
