//! The object that rules run on, with what many of them read.

use crate::karpenter::nodepool::NodePool;
use crate::karpenter::requirement_list::RequirementList;
use crate::object::Object;

pub(crate) struct Subject<'a> {
    pub(crate) object: &'a Object,
    /// The object as a NodePool, which about 45 rules read.
    pub(crate) pool: Option<NodePool<'a>>,
    /// Its requirements, which about 20 rules read.
    pub(crate) requirements: Option<RequirementList<'a>>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(object: &'a Object) -> Subject<'a> {
        let requirements = RequirementList::of(object);
        Subject { object, pool: NodePool::new(object), requirements }
    }
}
