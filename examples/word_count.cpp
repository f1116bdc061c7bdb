// SPDX-License-Identifier: Apache-2.0
// Counts words: a reader and several counters share a channel, each counter on a loop of its own.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using word_counts = std::map<std::string, int>;

gyre::task<> read_lines(std::istream& from, gyre::channel<std::string>& lines) {
  for (std::string line; std::getline(from, line);) co_await lines.send(std::move(line));
  lines.close();
}

gyre::task<word_counts> count_words(gyre::channel<std::string>& lines) {
  word_counts counts;
  while (std::optional<std::string> line = co_await lines.receive()) {
    std::istringstream words(*line);
    for (std::string word; words >> word;) ++counts[word];
  }
  co_return counts;
}

gyre::task<word_counts> count(std::istream& text, gyre::loop_pool& workers) {
  gyre::channel<std::string> lines(16);
  std::vector<gyre::task<word_counts>> counters;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    counters.push_back(gyre::on(workers[i], count_words(lines)));
  }
  auto [nothing, parts] =
      co_await gyre::when_all(read_lines(text, lines), gyre::when_all(std::move(counters)));
  word_counts sum;
  for (const word_counts& part : parts) {
    for (const auto& [word, times] : part) sum[word] += times;
  }
  co_return sum;
}

int main() {
  using namespace std::chrono_literals;
  std::istringstream text(
      "turning and turning in the widening gyre\n"
      "the falcon cannot hear the falconer\n"
      "things fall apart the centre cannot hold\n");
  gyre::loop_pool workers(2, {.name = "counter"});
  gyre::loop loop;
  const word_counts counts = gyre::sync_wait(loop, gyre::with_timeout(count(text, workers), 10s));
  for (const auto& [word, times] : counts) {
    if (times > 1) std::cout << word << ' ' << times << '\n';
  }
}
