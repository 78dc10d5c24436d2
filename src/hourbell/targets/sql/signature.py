"""Resolution of a target's function: looked up in the catalogue by exact name, overloads chosen by parameter names."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

PAYLOAD = "payload"  # the name of the parameter that gets the run's payload, if it is JSON
_SHOWN = 10  # candidates in a message
_MAX_TEXT_CHARACTERS = 200  # characters of each
_KINDS = {"p": "a procedure", "a": "an aggregate", "w": "a window function"}
# Run with search_path = pg_catalog, pg_temp: names in its output are schema-qualified, and allow-list entries must be.
# Only allow-list entries that contain the function's name are resolved, so that an invalid entry affects no other.
_CANDIDATES = """
select format('%I.%I', n.nspname, p.proname) as name,
       format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_arguments(p.oid)) as signature,
       p.oid::regprocedure::text as identity,
       p.prokind::text as kind,
       p.proretset as returns_set,
       format_type(p.prorettype, null) as returns,
       $3::text[] is null or exists (
           select 1 from unnest($3::text[]) as entry
           where strpos(lower(entry), lower(p.proname)) > 0
             and to_regprocedure(entry) = p.oid
       ) as is_allowed,
       (select json_agg(json_build_object(
                   'name', coalesce(i.name, ''),
                   'quoted', quote_ident(coalesce(i.name, '')),
                   'type', format('%I.%I', s.nspname, t.typname),
                   'shape', case
                       when 'json'::regtype in (t.oid, t.typbasetype)
                         or 'jsonb'::regtype in (t.oid, t.typbasetype) then 'json'
                       when t.typcategory <> 'A' then 'plain'
                       when t.typelem in ('json'::regtype, 'jsonb'::regtype) then 'json_array'
                       else 'array' end,
                   'has_default', i.place > p.pronargs - p.pronargdefaults,
                   'is_variadic', i.mode = 'v') order by i.place)::text
        from (select a.name, a.type, coalesce(a.mode, 'i') as mode,
                     row_number() over (order by a.place) as place
              from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]), p.proargnames, p.proargmodes)
                   with ordinality as a(type, name, mode, place)
              where coalesce(a.mode, 'i') in ('i', 'b', 'v')) as i
        join pg_type t on t.oid = i.type
        join pg_namespace s on s.oid = t.typnamespace) as parameters
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
where n.nspname = $1 and p.proname = $2
order by signature
"""


class NoSuchFunction(ValueError):
    """Validation error: no function or several match the target, or the match is not callable; the message says why."""


class Shape(StrEnum):
    """The way in which a JSON value is converted to a value of a type."""

    PLAIN = "plain"
    JSON = "json"
    ARRAY = "array"
    JSON_ARRAY = "json_array"


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input parameter of a function. `quoted` and `type` are SQL text, as the server formats them."""

    name: str
    quoted: str
    type: str
    shape: Shape = Shape.PLAIN
    has_default: bool = False
    is_variadic: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the catalogue. `name` is SQL text; `signature` and `identity` are for messages."""

    name: str
    signature: str
    identity: str
    kind: str
    returns: str
    returns_set: bool
    is_allowed: bool
    parameters: tuple[Parameter, ...]

    def takes(self, names: Collection[str]) -> bool:
        """Return True if all names are parameters and include every parameter without a default."""
        known = {parameter.name for parameter in self.parameters if parameter.name}
        needed = {parameter.name for parameter in self.parameters if not parameter.has_default}
        return needed <= set(names) <= known

    @property
    def payload_parameter(self) -> Parameter | None:
        """The JSON parameter named `payload`, if there is one."""
        return next((each for each in self.parameters if each.name == PAYLOAD and each.shape is Shape.JSON), None)

    def takes_with_payload(self, names: Collection[str]) -> bool:
        """Return True if the function takes these names together with the payload."""
        return self.payload_parameter is not None and self.takes({*names, PAYLOAD})

    @property
    def takes_all_in_one(self) -> bool:
        """True if the function has a single parameter, which is JSON and has no name."""
        return [(parameter.name, parameter.shape) for parameter in self.parameters] == [("", Shape.JSON)]


async def find_function(
    connection: Any, schema: str, name: str, args: Mapping[str, object], allowed: Collection[str] | None
) -> Function:
    """Return the function that a target names, or raise NoSuchFunction. `allowed` holds signatures; None allows all."""
    rows = await connection.fetch(_CANDIDATES, schema, name, None if allowed is None else list(allowed))
    if not rows:
        raise NoSuchFunction(f"there is no function {schema}.{name}; create it, or correct the target")
    function = choose([_function(row) for row in rows], args)
    if not function.is_allowed:
        raise NoSuchFunction(f"{function.identity} is not on the allow-list; ask the operator to add it")
    return function


def choose(functions: Sequence[Function], args: Collection[str]) -> Function:
    """Choose the one function whose parameters match the argument names; raise NoSuchFunction if there is not one.

    If none matches, choose one that matches together with the payload, and then one that takes all args as JSON.
    """
    fitting = [function for function in functions if function.takes(args)]
    fitting = fitting or [function for function in functions if function.takes_with_payload(args)]
    fitting = fitting or [function for function in functions if function.takes_all_in_one]
    if not fitting:
        given = ", ".join(sorted(args)) or "none"
        raise NoSuchFunction(f"no parameters fit the args given ({given}); there is {_shown(functions)}")
    if len(fitting) > 1:
        raise NoSuchFunction(f"the args fit several functions, and only one must be left: {_shown(fitting)}")
    [function] = fitting
    if function.kind in _KINDS:
        raise NoSuchFunction(f"{function.identity} is {_KINDS[function.kind]}; name a function")
    if function.returns_set:
        raise NoSuchFunction(f"{function.identity} returns a set; write one that returns a single json or jsonb")
    if function.returns not in ("json", "jsonb"):
        raise NoSuchFunction(f"{function.identity} returns {function.returns}; it must return json or jsonb")
    return function


def _function(row: Mapping[str, Any]) -> Function:
    parameters = tuple(
        Parameter(**{**each, "shape": Shape(each["shape"])}) for each in json.loads(row["parameters"] or "[]")
    )
    facts = {name: value for name, value in row.items() if name != "parameters"}
    return Function(**facts, parameters=parameters)


def _shown(functions: Sequence[Function]) -> str:
    shown = [function.signature[:_MAX_TEXT_CHARACTERS] for function in functions[:_SHOWN]]
    left = len(functions) - len(shown)
    return "; ".join(shown) + (f"; and {left} more" if left else "")
