// SPDX-License-Identifier: Apache-2.0
// Guide to the network, part 9: folders, whole files, and files that are gone afterwards.
#include <gyre/io/directory.hpp>
#include <gyre/io/file.hpp>
#include <gyre/io/file_system.hpp>
#include <gyre/io/mapped_file.hpp>
#include <gyre/io/temporary.hpp>
#include <gyre/io/walk.hpp>
#include <gyre/io/write_whole.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <iostream>
#include <set>
#include <string>

gyre::task<> write_notes(std::string folder) {
  co_await gyre::io::create_directories(folder + "/2026/may");
  co_await gyre::io::write_whole(folder + "/2026/may/draft", "remember the bread\n");
  co_await gyre::io::replace_whole(folder + "/2026/may/list", "remember the milk\n");
  co_await gyre::io::rename(folder + "/2026/may/draft", folder + "/2026/may/second");
}

gyre::task<> print_notes(std::string folder) {
  std::set<std::string> names;  // the file system has its own order
  auto entries = gyre::io::read_directory(folder + "/2026/may");
  while (gyre::io::directory_entry* entry = co_await entries.next()) names.insert(entry->name);
  for (const std::string& each : names) std::cout << each << '\n';

  int files = 0;
  auto tree = gyre::io::walk(folder, {.report_errors = true});
  while (gyre::io::walk_entry* entry = co_await tree.next()) {
    if (entry->error) std::cerr << entry->path << ": " << entry->error.message() << '\n';
    if (entry->type == gyre::io::file_type::regular) ++files;
  }
  std::cout << files << " files\n";
}

gyre::task<> search_notes(std::string path) {
  const auto list = co_await gyre::io::mapped_file::open(path);
  std::cout << (list.text().contains("milk") ? "milk\n" : "no milk\n");
}

gyre::task<> keep_notes() {
  auto folder = co_await gyre::io::temporary_directory::create();
  co_await write_notes(folder.path());
  co_await print_notes(folder.path());
  co_await search_notes(folder / "2026/may/list");
  co_await folder.remove();
}

int main() { gyre::sync_wait(keep_notes()); }
