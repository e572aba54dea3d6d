//! The hourly price of an instance type, as listed by EC2.
//!
//! The figures are those with which Karpenter starts (`prices.csv`, written by `generate.py`, source and dates in its
//! header). They are prices of one day, for on-demand capacity: bills differ by discounts and by region, and Spot
//! prices are unknown.

use std::sync::LazyLock;

use super::{InstanceType, find};

/// The region whose prices are used for regions without a list of their own.
const PRICE_REGION: &str = "us-east-1";

static PRICES: LazyLock<PriceList> = LazyLock::new(|| PriceList::parse(include_str!("prices.csv")));

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPrice {
    /// Price in millionths of a US dollar per hour.
    pub micro_dollars: u64,
    /// The region of the list, which may differ from the requested one.
    pub region: &'static str,
    /// The day of the list, as `2026-01-31`.
    pub date: &'static str,
}

impl ListPrice {
    /// Price in US dollars per hour.
    pub fn dollars(&self) -> f64 {
        // Prices stay far below 2^53 millionths.
        let micro = self.micro_dollars as f64;
        micro / 1e6
    }
}

struct PriceList {
    /// Region and date of each list.
    lists: Vec<(&'static str, &'static str)>,
    /// By the position of the type, then by list. 0 for unlisted types.
    rows: Vec<Vec<u64>>,
}

impl PriceList {
    fn parse(text: &'static str) -> PriceList {
        let dates = text.lines().find_map(|line| line.strip_prefix("# Dates: ")).unwrap_or_default();
        let lists: Vec<_> = dates.split(' ').filter_map(|pair| pair.split_once('=')).collect();
        let mut rows = vec![Vec::new(); super::all().len()];
        for line in text.lines().filter(|line| !line.starts_with('#')).skip(1) {
            let mut cells = line.split(',');
            let Some(instance) = cells.next().and_then(find) else { continue };
            if let Some(row) = rows.get_mut(instance.index()) {
                *row = cells.map(|cell| cell.parse().unwrap_or(0)).collect();
            }
        }
        PriceList { lists, rows }
    }

    fn list_of(&self, region: Option<&str>) -> Option<usize> {
        let region = region.unwrap_or(PRICE_REGION);
        if region.starts_with("cn-") {
            return None;
        }
        let at = |name: &str| self.lists.iter().position(|(known, _)| *known == name);
        at(region).or_else(|| at(PRICE_REGION))
    }
}

/// Region and date of the list that is used for a region. [`None`] for China, for which there is no list.
pub fn price_list(region: Option<&str>) -> Option<(&'static str, &'static str)> {
    PRICES.list_of(region).map(|list| PRICES.lists[list])
}

impl InstanceType {
    /// The on-demand list price in a region: that of [`PRICE_REGION`] in regions without a list of their own, and
    /// [`None`] in China and for a type that is not listed.
    pub fn list_price(&self, region: Option<&str>) -> Option<ListPrice> {
        let list = PRICES.list_of(region)?;
        let micro_dollars = *PRICES.rows.get(self.index())?.get(list)?;
        let (region, date) = PRICES.lists[list];
        (micro_dollars > 0).then_some(ListPrice { micro_dollars, region, date })
    }
}

/// Types by list price, cheapest first, then by name. Those without a price come last.
pub fn cheapest_first<'t>(
    types: impl IntoIterator<Item = &'t InstanceType>,
    region: Option<&str>,
) -> Vec<&'t InstanceType> {
    let mut sorted: Vec<_> = types.into_iter().collect();
    let price =
        |instance: &InstanceType| instance.list_price(region).map_or(u64::MAX, |price| price.micro_dollars);
    sorted.sort_by_cached_key(|instance| (price(instance), instance.name));
    sorted
}

#[cfg(test)]
mod tests {
    use super::super::{all, find};
    use super::{ListPrice, cheapest_first, price_list};

    #[test]
    fn prices_are_those_of_the_lists() {
        let price =
            |name: &str, region| find(name).expect("known").list_price(region).map(|p| p.micro_dollars);
        assert_eq!(price("m5.large", None), Some(96_000));
        assert_eq!(price("p5.48xlarge", Some("us-east-1")), Some(55_040_000));
        assert_eq!(price("m5.large", Some("us-gov-west-1")), Some(121_000));
        assert_eq!(price("m5.large", Some("cn-north-1")), None, "other currency");
        assert_eq!(price("hpc7a.96xlarge", None), None, "not listed");
        let elsewhere = find("m5.large").and_then(|t| t.list_price(Some("eu-west-1")));
        let expected = ListPrice { micro_dollars: 96_000, region: "us-east-1", date: "2026-07-20" };
        assert_eq!(elsewhere, Some(expected), "named as the price of us-east-1");
        assert_eq!(price_list(Some("us-gov-east-1")), Some(("us-gov-east-1", "2026-08-24")));
        assert_eq!(price_list(Some("cn-north-1")), None);
    }

    #[test]
    fn nearly_every_type_has_a_price() {
        let without = all().iter().filter(|t| !t.is_retired() && t.list_price(None).is_none()).count();
        assert!(without < 60, "{without}");
        let least = all().iter().filter_map(|t| t.list_price(None)).map(|p| p.micro_dollars).min();
        assert_eq!(least, Some(4_200), "t4g.nano");
    }

    #[test]
    fn the_order_is_by_price_then_name() {
        let names =
            ["p5.48xlarge", "hpc7a.96xlarge", "g6.xlarge", "g5.xlarge"].map(|n| find(n).expect("known"));
        let order: Vec<_> = cheapest_first(names, None).iter().map(|t| t.name).collect();
        assert_eq!(order, ["g6.xlarge", "g5.xlarge", "p5.48xlarge", "hpc7a.96xlarge"]);
    }
}
