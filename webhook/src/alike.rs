//! The texts of objects that are equal but for their names and for what the API server writes: pods of one template, the
//! Jobs of a queue, the objects of preview environments.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use gpulint_rules::AlikeName;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Metadata that the API server sets on stored objects. No rule reads it, and it differs between
/// requests for otherwise equal objects.
pub(crate) const SERVER_MANAGED_FIELDS: [&str; 5] =
    ["managedFields", "resourceVersion", "generation", "creationTimestamp", "selfLink"];

/// The text of an object, and the values in it that tell it from those like it.
#[derive(Debug)]
pub(crate) struct AlikeText<'t> {
    text: &'t str,
    /// The name, and the metadata that [`normalized`](crate::evaluate::normalized) takes away, in their order.
    cuts: Vec<Range<usize>>,
    name: Range<usize>,
    alike_name: AlikeName,
}

impl<'t> AlikeText<'t> {
    /// Finds the name and the metadata of the API server in a valid JSON text. `None` where that is not as an API server
    /// writes it, or the name is one that rules may tell from others without reading it.
    pub(crate) fn of(text: &'t str) -> Option<AlikeText<'t>> {
        let metadata = Metadata::find(text.as_bytes())?;
        let name = metadata.name?;
        let alike_name = AlikeName::of(&text[name.clone()])?;
        // The same that `normalized` does.
        let is_managed_list = |range: &Range<usize>| text[range.clone()].starts_with('[');
        let mut cuts = match metadata.uid.filter(|uid| text[uid.clone()].starts_with('"')) {
            Some(uid) => metadata.managed.into_iter().flatten().chain([uid]).collect(),
            None => metadata.managed[0].clone().filter(is_managed_list).into_iter().collect::<Vec<_>>(),
        };
        cuts.push(name.clone());
        cuts.sort_unstable_by_key(|range| range.start);
        Some(AlikeText { text, cuts, name, alike_name })
    }

    /// The name.
    pub(crate) fn name(&self) -> &'t str {
        &self.text[self.name.clone()]
    }

    /// Feeds what it has in common with texts like it to a hasher.
    pub(crate) fn hash_common(&self, hasher: &mut impl Hasher) {
        self.alike_name.hash(hasher);
        let mut from = 0;
        for cut in &self.cuts {
            self.write(from..cut.start, hasher);
            from = cut.end;
        }
        self.write(from..self.text.len(), hasher);
    }

    /// Feeds what tells it from them to a hasher.
    pub(crate) fn hash_rest(&self, hasher: &mut impl Hasher) {
        self.cuts.iter().for_each(|cut| self.write(cut.clone(), hasher));
    }

    fn write(&self, range: Range<usize>, hasher: &mut impl Hasher) {
        hasher.write(self.text[range].as_bytes());
        // It does not occur in UTF-8.
        hasher.write_u8(0xff);
    }

    /// Whether no key counts but the one that was found: of repeated keys the last one does. If it holds for one text, it
    /// holds for those that have the same in common.
    pub(crate) fn is_unambiguous(&self) -> bool {
        #[derive(Deserialize)]
        struct Object {
            metadata: Members,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[expect(dead_code, reason = "a key that is repeated is an error")]
        struct Members {
            name: IgnoredAny,
            uid: Option<IgnoredAny>,
            managed_fields: Option<IgnoredAny>,
            resource_version: Option<IgnoredAny>,
            generation: Option<IgnoredAny>,
            creation_timestamp: Option<IgnoredAny>,
            self_link: Option<IgnoredAny>,
        }
        serde_json::from_str::<Object>(self.text)
            .is_ok_and(|object| matches!(object.metadata.name, IgnoredAny))
    }
}

/// Where members of `metadata` are, without the quotes of the name.
#[derive(Debug, Default)]
struct Metadata {
    name: Option<Range<usize>>,
    uid: Option<Range<usize>>,
    /// In the order of [`SERVER_MANAGED_FIELDS`].
    managed: [Option<Range<usize>>; SERVER_MANAGED_FIELDS.len()],
}

impl Metadata {
    /// The members of the first `metadata` in an object before which there is nothing but texts.
    fn find(text: &[u8]) -> Option<Metadata> {
        let mut reader = Reader { text, at: 0 };
        reader.take(b'{')?;
        while reader.key()? != b"metadata" {
            reader.string()?;
            reader.take(b',')?;
        }
        reader.take(b'{')?;
        let mut found = Metadata::default();
        loop {
            let key = reader.key()?;
            let value = reader.value()?;
            let managed = SERVER_MANAGED_FIELDS.iter().position(|field| field.as_bytes() == key);
            let slot = match (key, managed) {
                (b"name", _) => &mut found.name,
                (b"uid", _) => &mut found.uid,
                (_, Some(at)) => &mut found.managed[at],
                _ => &mut None,
            };
            let is_name = key == b"name";
            if slot.replace(value.clone()).is_some() || is_name && text[value.start] != b'"' {
                return None;
            }
            if is_name {
                *slot = Some(value.start + 1..value.end - 1);
            }
            match reader.next()? {
                b',' => {}
                _ => return Some(found),
            }
        }
    }
}

/// Reads a valid JSON text as far as it has to be.
struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Reader<'t> {
    fn skip_spaces(&mut self) {
        let spaces = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace());
        self.at += spaces.count();
    }

    /// The next byte that is no space.
    fn next(&mut self) -> Option<u8> {
        self.skip_spaces();
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    /// A string, with its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        self.take(b'"')?;
        let start = self.at - 1;
        loop {
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(start..self.at)
    }

    /// A key, and the colon after it. `None` for one that is written with escapes.
    fn key(&mut self) -> Option<&'t [u8]> {
        let range = self.string()?;
        self.take(b':')?;
        let key = &self.text[range.start + 1..range.end - 1];
        (!key.contains(&b'\\')).then_some(key)
    }

    /// A value.
    fn value(&mut self) -> Option<Range<usize>> {
        self.skip_spaces();
        let start = self.at;
        match self.text.get(start)? {
            b'"' => return self.string(),
            b'{' | b'[' => {
                let mut depth = 0_usize;
                loop {
                    match self.text.get(self.at)? {
                        b'"' => {
                            self.string()?;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth -= 1,
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                self.at += self.text[start..].iter().take_while(|byte| !is_end(byte)).count();
            }
        }
        Some(start..self.at)
    }
}

#[cfg(test)]
mod tests;
