-- Which jobs the program of a node defines: one that no live node defines any more is gone from the code.
alter table hourbell.nodes add column source text, add column jobs text[] not null default '{}';
