// SPDX-License-Identifier: Apache-2.0
// A crawler: pages link to pages, each is fetched once, at most eight at a time. For
// docs/guide/patterns.md.
#include <gyre/gyre.hpp>

#include <chrono>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

struct page {
  std::string text;
  std::vector<int> links;
};

gyre::task<page> fetch(int number) {
  co_await gyre::sleep_for(1ms);  // a request
  page found{.text = "page " + std::to_string(number), .links = {}};
  for (const int link : {2 * number, 2 * number + 1}) {
    if (link <= 100) found.links.push_back(link);
  }
  co_return found;
}

gyre::task<std::size_t> crawl(gyre::scope& scope, int start) {
  constexpr std::size_t most_at_a_time = 8;
  gyre::join_set<page> fetches(scope);
  std::set<int> seen = {start};
  std::vector<int> waiting = {start};
  std::size_t fetched = 0;
  for (;;) {
    while (!waiting.empty() && fetches.size() < most_at_a_time) {
      fetches.spawn(fetch(waiting.back()));
      waiting.pop_back();
    }
    const std::optional<page> next = co_await fetches.next();
    if (!next) co_return fetched;  // nothing is left to fetch
    ++fetched;
    for (const int link : next->links) {
      if (seen.insert(link).second) waiting.push_back(link);
    }
  }
}

}  // namespace

int main() {
  gyre::loop loop;
  const std::size_t fetched =
      gyre::sync_wait(loop, gyre::with_scope([](gyre::scope& scope) { return crawl(scope, 1); }));
  std::cout << fetched << " pages\n";
}
