// SPDX-License-Identifier: Apache-2.0
// Awaited expressions of a user: each that tools/find_awaited_temporaries must report is marked.
#include <gyre/task/invoke.hpp>
#include <gyre/task/task.hpp>

#include <array>
#include <optional>
#include <string>
#include <utility>

struct job {
  int id;
  std::string name;
};
struct point {
  int x, y;
};
gyre::task<> mine(job) { co_return; }
gyre::task<> byref(const job&) { co_return; }
gyre::task<> opt(std::optional<job>) { co_return; }
gyre::task<> text(std::string) { co_return; }
gyre::task<> num(point) { co_return; }
template <class F>
gyre::task<> call(F) {
  co_return;
}
job make() { return {1, "x"}; }
gyre::task<> awaits(bool b, std::string s) {
  co_await mine(job{1, "a"});                                                  // found
  co_await mine({1, "a"});                                                     // found
  co_await mine(job(1, "a"));                                                  // found
  co_await mine({.id = 1});                                                    // found
  co_await mine(job{});                                                        // found
  co_await byref(job{1, "a"});                                                 // found
  co_await opt(job{1, "a"});                                                   // found
  co_await call(std::array{s, s});                                             // found
  co_await text(b ? s : "x");                                                  // found
  co_await text(b ? std::string("a") : std::string("x"));                      // found
  co_await call([s] { (void)s; });                                             // found
  co_await call([s = std::move(s)] { (void)s; });                              // found
  auto r = gyre::invoke([s]() -> gyre::task<> { co_await mine(job{1, s}); });  // found
  co_await num({1, 2});
  co_await call([&s] { (void)s; });
  co_await call([] { return job{1, "x"}; });
  co_await mine(make());
  co_await text(std::string{"x"});
  co_await text({"x"});
  job named{1, "x"};
  co_await mine(named);
  auto t = mine(job{1, "a"});
  co_await std::move(t);
}
template <class T>
gyre::task<> awaits_in_template(T) {
  co_await mine(job{1, "t"});  // found
}
template gyre::task<> awaits_in_template(int);
