// SPDX-License-Identifier: Apache-2.0
// A program without gyre that loads a plug-in, uses it, and unloads it, again and again: also while
// threads that have used it live on and release gyre's resources when they end, and together with
// another plug-in that contains its own gyre.
#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

namespace {

constexpr int count = 1000;

// Whether the plug-in works on this thread; unloads it afterwards.
bool load_use_and_unload(const char* path) {
  void* const plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return false;
  }
  const auto run = reinterpret_cast<int (*)(int)>(dlsym(plugin, "run"));
  const bool good = run != nullptr && run(count) == count;
  return dlclose(plugin) == 0 && good;
}

}  // namespace

int main(int, char** arguments) {
  const char* const path = arguments[1];
  bool good = true;
  for (int round = 0; round < 10; ++round) {
    std::promise<bool> unloaded;
    std::promise<void> may_end;
    std::thread user([&] {
      unloaded.set_value(load_use_and_unload(path));
      may_end.get_future().wait();
    });
    good = unloaded.get_future().get() && good;
    may_end.set_value();  // the plug-in is unloaded, and the thread that has used it ends
    user.join();
  }
  good = load_use_and_unload(path) && good;

  const std::string copy = std::string(path) + ".copy.so";
  std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
  void* const first = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (int round = 0; round < 3; ++round) {
    good = load_use_and_unload(copy.c_str()) && load_use_and_unload(path) && good;
  }
  good = first != nullptr && dlclose(first) == 0 && good;
  std::puts(good ? "plug-in: good" : "plug-in: bad");
  return good ? 0 : 1;
}
