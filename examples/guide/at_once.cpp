// SPDX-License-Identifier: Apache-2.0
// Guide, part 4: a loop, time, and several things at once.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/task/collect.hpp>
#include <gyre/task/finally.hpp>
#include <gyre/task/fork.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <iostream>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

gyre::task<std::string> fetch(std::string page, std::chrono::milliseconds takes) {
  co_await gyre::sleep_for(takes);
  co_return "<" + page + ">";
}

gyre::task<> both() {
  auto [index, news] = co_await gyre::when_all(fetch("index", 20ms), fetch("news", 10ms));
  std::cout << index << news << '\n';
}

gyre::task<> news_last() {
  auto news = co_await gyre::fork(fetch("news", 20ms));
  const std::string index = co_await gyre::finally(fetch("index", 10ms), news.join());
  std::cout << index;
  const std::string last = co_await std::move(news);
  std::cout << last << '\n';
}

gyre::task<> either() {
  auto first = co_await gyre::when_any(fetch("near", 1ms), fetch("far", 1h));
  std::cout << first.index << ' ' << *std::get<0>(first.values) << '\n';
}

gyre::task<> drain(gyre::channel<std::string>& jobs) {
  for (bool open = true; open;) {
    auto first = co_await gyre::when_any(jobs.receive(), gyre::sleep_for(1ms));
    if (auto& job = std::get<0>(first.values)) {
      open = job->has_value();
      if (open) std::cout << "job " << **job << '\n';
    }
  }
}

gyre::task<> fill_and_drain() {
  gyre::channel<std::string> jobs(1);
  auto fill = [](gyre::channel<std::string>& to) -> gyre::task<> {
    co_await to.send("a");
    co_await to.send("b");
    to.close();
  };
  co_await gyre::when_all(fill(jobs), drain(jobs));
}

gyre::task<> many() {
  auto fetch_number = [](std::size_t i) { return fetch(std::to_string(i), 1ms); };
  std::vector<std::string> pages = co_await gyre::collect(5, fetch_number, 2);
  for (const std::string& page : pages) std::cout << page;
  std::cout << '\n';
}

gyre::task<> not_longer() {
  try {
    co_await gyre::with_timeout(fetch("slow", 1h), 10ms);
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::timed_out) throw;
    std::cout << "too slow\n";
  }
}

gyre::task<> all_of_it() {
  co_await both();
  co_await news_last();
  co_await either();
  co_await fill_and_drain();
  co_await many();
  co_await not_longer();
}

int main() {
  gyre::loop loop;
  gyre::sync_wait(loop, all_of_it());
}
