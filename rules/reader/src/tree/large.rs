//! Indexes of large collections: without them, looking up or reporting each entry of a list of 100,000 would take
//! hours.

use crate::tree::{Keys, SlotKind, Tree, key_hash};

/// Minimum number of entries of a mapping for an index.
pub(super) const MIN_ENTRIES: usize = 128;
/// Minimum number of nodes in a list for an index.
const MIN_NODES: u32 = 128;

/// The hash of a key, and the slot of its value.
type Entry = (u16, u32);

#[derive(Default)]
pub(crate) struct LargeCollections {
    /// The items of each list.
    lists: Vec<(u32, Box<[u32]>)>,
    /// The entries of mappings without repeated keys, sorted by the hash of the key and the key.
    mappings: Vec<(u32, Box<[Entry]>)>,
}

impl Tree {
    fn large(&self) -> &LargeCollections {
        self.large.get_or_init(|| {
            let mut large = Box::<LargeCollections>::default();
            for (at, slot) in (0..).zip(&self.slots) {
                let is_large = |least: u32| self.end(at) - at > least;
                match slot.kind {
                    SlotKind::Sequence | SlotKind::FlowSequence if is_large(MIN_NODES) => {
                        large.lists.push((at, self.children(at).collect()));
                    }
                    SlotKind::Mapping | SlotKind::FlowMapping
                        if slot.keys() == Keys::Unique && is_large(MIN_ENTRIES as u32) =>
                    {
                        let hash = |child: u32| key_hash(self.key_name(child));
                        let mut entries: Vec<_> =
                            self.children(at).map(|child| (hash(child), child)).collect();
                        // An attacker can choose many keys with the same hash.
                        entries.sort_unstable_by(|(a, one), (b, other)| {
                            a.cmp(b).then_with(|| self.key_name(*one).cmp(self.key_name(*other)))
                        });
                        large.mappings.push((at, entries.into()));
                    }
                    _ => {}
                }
            }
            large
        })
    }

    fn items_of_large(&self, list: u32) -> Option<&[u32]> {
        if self.end(list) - list <= MIN_NODES {
            return None;
        }
        let lists = &self.large().lists;
        let found = lists.binary_search_by_key(&list, |(at, _)| *at).ok()?;
        Some(&lists[found].1)
    }

    pub(super) fn index_in_parent(&self, item: u32) -> usize {
        let list = self.slot(item).parent;
        let position = match self.items_of_large(list) {
            Some(items) => items.binary_search(&item).ok(),
            None => self.children(list).position(|child| child == item),
        };
        position.unwrap_or_default()
    }

    /// The item of a list at an index.
    pub fn item(&self, list: u32, index: usize) -> Option<u32> {
        match self.items_of_large(list) {
            Some(items) => items.get(index).copied(),
            None => self.children(list).nth(index),
        }
    }

    /// The value of a key in a large mapping without repeated keys.
    pub(super) fn entry_of_large(&self, mapping: u32, hash: u16, name: &str) -> Option<u32> {
        let mappings = &self.large().mappings;
        let found = mappings.binary_search_by_key(&mapping, |(at, _)| *at).ok()?;
        let entries = &mappings[found].1;
        let found = entries.binary_search_by(|(other, child)| {
            other.cmp(&hash).then_with(|| self.key_name(*child).cmp(name))
        });
        found.ok().map(|found| entries[found].1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::tree::Tree;
    use crate::tree::node::Node;

    #[test]
    fn what_is_in_large_collections_is_found_where_it_is() {
        let list: Vec<Value> = (0..1000).map(|n| json!({"name": n, "tags": [n, n + 1]})).collect();
        let map: serde_json::Map<String, Value> =
            (0..1000).map(|n| (format!("key-{n}"), json!({"value": n}))).collect();
        let tree = Tree::from_json(&json!({"few": [1, 2], "list": list, "map": map}));
        let root = Node::new(&tree, 0);
        for n in [0, 1, 63, 64, 127, 128, 500, 999] {
            let item = root.get("list").index(n);
            assert_eq!(item.get("name").int(), i64::try_from(n).ok());
            let tag = item.get("tags").index(1);
            assert_eq!(tag.int(), i64::try_from(n + 1).ok());
            assert_eq!(tag.pointer().to_string(), format!("/list/{n}/tags/1"));
            let value = root.path(&["map", &format!("key-{n}"), "value"]);
            assert_eq!(value.int(), i64::try_from(n).ok());
            assert_eq!(value.pointer().to_string(), format!("/map/key-{n}/value"));
        }
        // Most of these keys have the same hash.
        let alike: serde_json::Map<String, Value> =
            (0..1000).map(|n| (format!("a{n:04}-middle-{n:04}z"), n.into())).collect();
        let tree_of_alike = Tree::from_json(&alike.clone().into());
        let map = Node::new(&tree_of_alike, 0);
        assert!(alike.iter().all(|(name, n)| map.get(name).int() == n.as_i64()));
        assert!(map.get("a0000-middle-0001z").is_absent());
        assert!(root.get("list").index(1000).is_absent());
        assert!(root.get("few").index(2).is_absent());
        assert!(root.path(&["map", "key-1000"]).is_absent());
    }
}
