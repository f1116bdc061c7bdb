# SPDX-License-Identifier: Apache-2.0
"""The public declarations of gyre's headers, read from Doxygen's XML."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headers import Comments

CONFIGURATION = """\
PROJECT_NAME = gyre
INPUT = {input}
OUTPUT_DIRECTORY = {output}
STRIP_FROM_PATH = {input}
RECURSIVE = YES
FILE_PATTERNS = *.hpp
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
EXTRACT_STATIC = YES
AUTOLINK_SUPPORT = NO
MARKDOWN_SUPPORT = NO
HIDE_FRIEND_COMPOUNDS = YES
SORT_MEMBER_DOCS = NO
BUILTIN_STL_SUPPORT = YES
SEARCH_INCLUDES = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = GYRE_INLINE_IN_GCC= GYRE_NO_UNIQUE_ADDRESS= "GYRE_MISUSE(x)=" \\
  "GYRE_MISUSED_CALLBACK(...)=" GYRE_MISUSE_FAILS= DOXYGEN
QUIET = YES
WARNINGS = YES
WARN_IF_UNDOCUMENTED = NO
WARN_IF_DOC_ERROR = YES
WARN_LOGFILE = {output}/warnings.txt
NUM_PROC_THREADS = {threads}
"""

# Doxygen does not know the classes of other libraries that headers of gyre specialise.
FOREIGN = re.compile(r"(scope for class|documented symbol) '?(constexpr bool )?(std|boost)::")
CLASSES = {"class", "struct", "union"}


@dataclass
class Parameter:
    type: str
    name: str
    default: str


@dataclass
class Declaration:
    """A name that a header declares: a class, a concept, a function, a variable, a type, …"""

    kind: str  # class, struct, union, concept, function, variable, typedef, enum, value, define
    name: str
    scope: str  # the qualified name of the enclosing class or namespace
    header: str
    line: int
    comment: str
    template: str = ""
    requires: str = ""
    type: str = ""
    arguments: str = ""
    initializer: str = ""
    prefix: str = ""  # static, explicit, virtual, …
    access: str = "public"
    is_friend: bool = False
    parameters: list[Parameter] = field(default_factory=list)
    bases: list[str] = field(default_factory=list)
    members: list["Declaration"] = field(default_factory=list)
    inherited: list["Declaration"] = field(default_factory=list)

    @property
    def qualified(self) -> str:
        return f"{self.scope}::{self.name}" if self.scope else self.name

    @property
    def is_class(self) -> bool:
        return self.kind in CLASSES

    def signature(self) -> str:
        """The declaration as C++, without a body."""
        lines = []
        if self.template:
            lines.append(self.template)
        if self.requires and self.kind != "concept":
            lines.append(f"  requires {self.requires}")
        if self.is_class:
            bases = f" : {', '.join(self.bases)}" if self.bases else ""
            lines.append(f"{self.kind} {self.name}{bases}")
        elif self.kind == "concept":
            lines.append(f"concept {self.name} = {self.initializer}")
        elif self.kind == "enum":
            lines.append(f"enum class {self.name}" + (f" : {self.type}" if self.type else ""))
        elif self.kind == "typedef":
            lines.append(f"using {self.name} = {self.type}")
        elif self.kind == "define":
            lines.append(f"#define {self.name}{self.arguments}")
        elif self.kind == "variable":
            lines.append(f"{self.prefix}{self.type} {self.name}{self.initializer}")
        else:
            result = f"{self.type} " if self.type else ""
            lines.append(f"{self.prefix}{result}{self.name}{self.arguments}")
        return "\n".join(lines)


@dataclass
class Model:
    """All public declarations: those of namespaces by header, and every name once more by itself."""

    headers: dict[str, list[Declaration]]
    warnings: list[str]

    def everything(self) -> Iterator[Declaration]:
        for declarations in self.headers.values():
            for each in declarations:
                yield each
                yield from nested(each)

    def classes(self) -> dict[str, Declaration]:
        return {each.qualified: each for each in self.everything() if each.is_class}


def nested(declaration: Declaration) -> Iterator[Declaration]:
    for member in declaration.members:
        yield member
        yield from nested(member)


def text_of(element: ElementTree.Element | None) -> str:
    """The text of an element and all below it, with single spaces."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


def tidy(code: str) -> str:
    """C++ as it is spelt in the sources: Doxygen sets spaces around brackets."""
    code = re.sub(r"\s+", " ", code).strip()
    pieces = []
    depth = 0  # of the brackets of templates, which follow a name without a space
    for position, character in enumerate(code):
        if character == "<" and position and re.match(r"\w", code[position - 1]):
            depth += 1
        elif character == ">" and depth and code[position - 1] != "-":
            depth -= 1
            if pieces and pieces[-1] == " ":
                pieces.pop()
        if character == " " and depth and code[position - 1] == "<":
            continue
        pieces.append(character)
    code = "".join(pieces)
    code = re.sub(r"\s+([&*]+)(?=[\s,)>]|$)", r"\1", code)
    code = re.sub(r"\(\s+", "(", code)
    return re.sub(r"\s+([),;])", r"\1", code)


def spaced(arguments: str) -> str:
    """Arguments with spaces around the signs of defaults, which Doxygen leaves out."""
    return re.sub(r"(?<=[\w\]&*])=(?=[^=\s])", " = ", arguments)


def run_doxygen(program: Path, source: Path, output: Path, threads: int = 2) -> list[str]:
    """Writes XML of the headers below `source` into `output`/xml, and returns the warnings."""
    output.mkdir(parents=True, exist_ok=True)
    configuration = CONFIGURATION.format(input=source, output=output, threads=threads)
    subprocess.run([program, "-"], input=configuration, text=True, check=True, cwd=output)
    return [
        line.replace(f"{source}/", "")
        for line in (output / "warnings.txt").read_text().splitlines()
        if line.strip() and not FOREIGN.search(line)
    ]


class Reader:
    """Reads Doxygen's XML into a model of what is public."""

    def __init__(self, root: Path, folder: Path, comments: Comments, public: Iterable[str]) -> None:
        self.root = root
        self.comments = comments
        self.public = set(public)
        self.compounds: dict[str, ElementTree.Element] = {}
        for path in sorted(folder.glob("*.xml")):
            if path.name == "index.xml" or path.name.startswith(("dir_", "file")):
                continue
            for compound in ElementTree.parse(path).getroot().findall("compounddef"):
                self.compounds[compound.get("id", "")] = compound

    def read(self) -> dict[str, list[Declaration]]:
        found: list[Declaration] = []
        for compound in self.compounds.values():
            name = text_of(compound.find("compoundname"))
            if is_detail(name):
                continue
            if compound.get("kind") == "namespace":
                found += self.members(compound, name)
                for inner in [*compound.findall("innerclass"), *compound.findall("innerconcept")]:
                    found += self.compound(inner.get("refid", ""))
        classes = {each.qualified for each in found if each.is_class}
        by_header: dict[str, list[Declaration]] = {header: [] for header in sorted(self.public)}
        for declaration in found:
            if declaration.kind == "function" and declaration.qualified in classes:
                continue  # a deduction guide, which says no more than the constructors
            by_header[declaration.header].append(declaration)
        for declarations in by_header.values():
            declarations.sort(key=lambda each: each.line)
        return by_header

    def comment(self, element: ElementTree.Element) -> str:
        parts = (element.find(f"{kind}description") for kind in ("brief", "detailed", "inbody"))
        return self.comments.find(" ".join(text_of(part) for part in parts))

    def compound(self, identity: str) -> list[Declaration]:
        element = self.compounds.get(identity)
        if element is None:
            return []
        qualified = text_of(element.find("compoundname"))
        header, line = place(element)
        kind = element.get("kind", "")
        access = element.get("prot", "public")
        if header not in self.public or access == "private" or is_detail(qualified):
            return []
        scope, name = split_name(qualified)
        declaration = Declaration(
            kind=kind,
            name=name,
            scope=scope,
            header=header,
            line=line,
            comment=self.comment(element),
            template=template_of(element),
            requires=tidy(text_of(element.find("requiresclause"))),
            access=access,
        )
        if kind == "concept":
            initializer = text_of(element.find("initializer"))
            declaration.initializer = tidy(re.sub(r"^.*?\bconcept\s+[\w:]+\s*=", "", initializer))
            return [declaration]
        self.fill(declaration, element)
        return [declaration]

    def fill(self, declaration: Declaration, element: ElementTree.Element) -> None:
        qualified = declaration.qualified
        for base in element.findall("basecompoundref"):
            if base.get("prot") == "private":
                continue
            name = tidy(text_of(base))
            if "detail::" not in name:
                declaration.bases.append(f"{base.get('prot')} {name}")
            parent = self.compounds.get(base.get("refid", ""))
            if parent is not None and is_detail(text_of(parent.find("compoundname"))):
                declaration.inherited += self.inherited(parent, declaration)
        declaration.members = self.members(element, qualified)
        for inner in element.findall("innerclass"):
            declaration.members += self.compound(inner.get("refid", ""))
        declaration.members += self.used(declaration, element)
        own = {member.name for member in declaration.members}
        declaration.members += [each for each in declaration.inherited if each.name not in own]
        declaration.members.sort(key=lambda each: (each.header != declaration.header, each.line))

    def used(self, heir: Declaration, element: ElementTree.Element) -> list[Declaration]:
        """The members of bases that `using base::member;` makes public, which Doxygen leaves out."""
        location = element.find("location")
        if location is None or not location.get("bodystart"):
            return []
        first = int(location.get("bodystart", "0"))
        last = int(location.get("bodyend", "0"))
        lines = (self.root / heir.header).read_text().splitlines()
        access = "private" if heir.kind == "class" else "public"
        found = []
        for number in range(first, min(last, len(lines)) + 1):
            line = lines[number - 1]
            if match := re.match(r"\s*(public|protected|private):", line):
                access = match[1]
            match = re.match(r"\s*using ([\w:]+)::(\w+);", line)
            if match is None or access != "public" or match[1].endswith(match[2]):
                continue
            comment = comment_above(lines, number - 1)
            for member in self.members_named(element, match[2]):
                member.scope = heir.qualified
                member.header = heir.header
                member.line = number
                member.access = "public"
                member.comment = comment or member.comment
                found.append(member)
        return found

    def members_named(
        self, element: ElementTree.Element, name: str, depth: int = 0
    ) -> list[Declaration]:
        """The members of this name in the nearest base that has any."""
        for base in element.findall("basecompoundref"):
            parent = self.compounds.get(base.get("refid", ""))
            if parent is None or depth > 8:
                continue
            scope = text_of(parent.find("compoundname"))
            members = self.members(parent, scope, any_header=True)
            named = [member for member in members if member.name == name]
            if named := named or self.members_named(parent, name, depth + 1):
                return named
        return []

    def inherited(
        self, parent: ElementTree.Element, heir: Declaration, depth: int = 0
    ) -> list[Declaration]:
        """Public members of a base of namespace detail, which a user knows as the derived class's."""
        members = [
            member
            for member in self.members(parent, heir.qualified, any_header=True)
            if not member.name.startswith("~") and member.access == "public"
            if member.name != split_name(text_of(parent.find("compoundname")))[1].split("<")[0]
        ]
        for member in members:
            member.header = heir.header
        for base in parent.findall("basecompoundref"):
            above = self.compounds.get(base.get("refid", ""))
            if above is None or base.get("prot") != "public" or depth >= 8:
                continue
            if is_detail(text_of(above.find("compoundname"))):
                known = {member.name for member in members}
                members += [
                    each
                    for each in self.inherited(above, heir, depth + 1)
                    if each.name not in known
                ]
        return members

    def members(
        self, element: ElementTree.Element, scope: str, any_header: bool = False
    ) -> list[Declaration]:
        found = []
        for member in element.iter("memberdef"):
            header, line = place(member)
            if member.get("prot") == "private":
                continue
            if header not in self.public and not any_header:
                continue
            declaration = self.member(member, scope, header, line)
            if declaration is not None:
                found.append(declaration)
        return found

    def member(
        self, member: ElementTree.Element, scope: str, header: str, line: int
    ) -> Declaration | None:
        kind = member.get("kind", "")
        name = text_of(member.find("name"))
        type_ = tidy(text_of(member.find("type")))
        is_friend = kind == "friend"
        if is_friend:
            if "class" in type_ or "struct" in type_ or not text_of(member.find("argsstring")):
                return None
            kind = "function"
        if not name or name.startswith("@") or kind not in (
            "function", "variable", "typedef", "enum", "define"
        ):  # fmt: skip
            return None
        if kind == "function" and re.match(r"GYRE_|static_assert|requires", name):
            return None
        flags = [
            ("friend ", is_friend and not type_.startswith("friend")),
            ("static ", member.get("static") == "yes" and scope != "" and kind != "typedef"),
            ("constexpr ", member.get("constexpr") == "yes" and "constexpr" not in type_),
            ("explicit ", member.get("explicit") == "yes"),
            ("virtual ", member.get("virt") in ("virtual", "pure-virtual")),
        ]
        prefix = "".join(word for word, is_set in flags if is_set)
        if member.get("static") == "yes" and "static" in type_.split():
            prefix = prefix.replace("static ", "")
        declaration = Declaration(
            kind=kind,
            name=name,
            scope=scope,
            header=header,
            line=line,
            comment=self.comment(member),
            template=template_of(member),
            requires=tidy(text_of(member.find("requiresclause"))),
            type=type_,
            arguments=spaced(tidy(text_of(member.find("argsstring")))),
            initializer=initializer_of(member),
            prefix=prefix,
            access=member.get("prot", "public"),
            is_friend=is_friend,
            parameters=[
                Parameter(
                    tidy(text_of(each.find("type"))),
                    text_of(each.find("declname")),
                    tidy(text_of(each.find("defval"))),
                )
                for each in member.findall("param")
            ],
        )
        for value in member.findall("enumvalue"):
            declaration.members.append(
                Declaration(
                    kind="value",
                    name=text_of(value.find("name")),
                    scope=f"{scope}::{name}",
                    header=header,
                    line=line,
                    comment=self.comment(value),
                    initializer=text_of(value.find("initializer")),
                )
            )
        return declaration


def comment_above(lines: list[str], index: int) -> str:
    """The text of the comment that ends on the line before `index`."""
    found: list[str] = []
    while index > 0 and (match := re.match(r"\s*/// ?(.*)$", lines[index - 1])):
        found.insert(0, match[1])
        index -= 1
    return "\n".join(found)


def initializer_of(member: ElementTree.Element) -> str:
    text = text_of(member.find("initializer"))
    return f" {text}" if text.startswith("=") else text


def is_detail(qualified: str) -> bool:
    return bool(re.search(r"(^|::)(detail|\w*_detail)(::|$)", qualified)) or "@" in qualified


def place(element: ElementTree.Element) -> tuple[str, int]:
    """The header and the line of a declaration, also where a definition follows elsewhere."""
    location = element.find("location")
    if location is None:
        return "", 0
    if location.get("declfile"):
        return location.get("declfile", ""), int(location.get("declline", "0"))
    return location.get("file", ""), int(location.get("line", "0"))


def split_name(qualified: str) -> tuple[str, str]:
    """The scope and the name of `a::b<c::d>`."""
    depth = 0
    for position in range(len(qualified) - 1, 0, -1):
        character = qualified[position]
        depth += (character == ">") - (character == "<")
        if depth == 0 and qualified[position - 1 : position + 1] == "::":
            return qualified[: position - 1], qualified[position + 1 :]
    return "", qualified


def template_of(element: ElementTree.Element) -> str:
    parameters = element.find("templateparamlist")
    if parameters is None:
        return ""
    texts = []
    for each in parameters.findall("param"):
        text = tidy(text_of(each.find("type")))
        name = text_of(each.find("declname"))
        default = tidy(text_of(each.find("defval")))
        if name and not text.endswith(f" {name}"):
            text = f"{text} {name}"
        texts.append(f"{text} = {default}" if default else text)
    return f"template <{', '.join(texts)}>"
