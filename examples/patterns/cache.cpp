// SPDX-License-Identifier: Apache-2.0
// A cache: fifty coroutines need one page at the same time, which is loaded once. For
// docs/guide/patterns.md.
#include <gyre/gyre.hpp>

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

class pages {
 public:
  gyre::task<std::shared_ptr<const std::string>> get(std::string name) {
    return cache_.get(std::move(name), [this](std::string wanted) { return load(wanted); });
  }
  int loads() const { return loads_; }

 private:
  gyre::task<std::string> load(std::string name) {
    ++loads_;
    co_await gyre::sleep_for(1ms);  // a disk, a database
    co_return "<" + name + ">";
  }

  gyre::async_cache<std::string, std::string> cache_{{.capacity = 100}};
  int loads_ = 0;
};

gyre::task<> read_pages() {
  pages all;
  std::vector<gyre::task<std::shared_ptr<const std::string>>> readers;
  for (int reader = 0; reader < 50; ++reader) readers.push_back(all.get("index"));
  const auto read = co_await gyre::when_all(std::move(readers));
  std::cout << *read.front() << ' ' << *read.back() << ", loads: " << all.loads() << '\n';
}

}  // namespace

int main() {
  gyre::loop loop;
  gyre::sync_wait(loop, read_pages());
}
