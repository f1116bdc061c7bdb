// SPDX-License-Identifier: Apache-2.0
// Guide to whole programs: files that change, and terminals.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/file_watcher.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/io/terminal.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <utility>

// An editor, which replaces the file.
void edit(const std::filesystem::path& file) {
  std::ofstream(file.native() + "~") << "port = 8";
  std::filesystem::rename(file.native() + "~", file);
}

gyre::task<> reload_on_change(gyre::loop& loop, std::string config) {
  gyre::io::file_watcher watcher(loop);
  watcher.add(config, {.changes = gyre::io::file_change::closed_after_write |
                                  gyre::io::file_change::moved_to,
                       .by_name = true});
  edit(config);
  const gyre::io::file_event event = co_await watcher.next();
  if (event.kind != gyre::io::file_change::unwatched) std::cout << "reloaded\n";
}

gyre::task<> index_tree(gyre::loop& loop, std::string folder) {
  gyre::io::file_watcher watcher(loop);
  watcher.add(folder, {.changes = gyre::io::file_change::created, .recursive = true});
  std::filesystem::create_directory(folder + "/new");
  std::ofstream page(folder + "/new/page");  // before anybody knows of its directory
  for (;;) {
    const gyre::io::file_event event = co_await watcher.next();
    if (event.kind == gyre::io::file_change::overflowed) continue;  // read the tree again
    std::cout << event.name << '\n';
    if (!event.is_directory) co_return;
  }
}

gyre::task<bool> confirm(gyre::loop& loop, int terminal) {
  gyre::io::stream keys = gyre::io::open_terminal(loop, terminal);
  const gyre::io::terminal_mode cbreak(keys.fd(), gyre::io::terminal_setting::cbreak);
  co_await keys.write_all("sure? ");
  std::array<char, 1> key{};
  co_await keys.read_some(std::as_writable_bytes(std::span(key)));
  co_return key[0] == 'y';
}

gyre::task<> answer(gyre::io::stream& user) {
  std::array<std::byte, 6> question{};
  co_await user.read_exactly(question);
  co_await user.write_all("y");
}

int main() {
  gyre::loop loop;
  std::string folder = (std::filesystem::temp_directory_path() / "gyre-guide-XXXXXX").native();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  gyre::sync_wait(loop, reload_on_change(loop, folder + "/config.toml"));
  gyre::sync_wait(loop, index_tree(loop, folder));
  std::filesystem::remove_all(folder);

  gyre::unique_fd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0) return 1;
  std::array<char, 64> name{};
  if (::ptsname_r(master.get(), name.data(), name.size()) != 0) return 1;
  const gyre::unique_fd terminal(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  gyre::io::stream user(loop, std::move(master));
  const auto [sure, answered] =
      gyre::sync_wait(loop, gyre::when_all(confirm(loop, terminal.get()), answer(user)));
  static_cast<void>(answered);
  std::cout << (sure ? "yes\n" : "no\n");
}
