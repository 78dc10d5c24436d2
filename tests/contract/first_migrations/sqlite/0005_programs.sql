-- Which jobs the program of a node defines: one that no live node defines any more is gone from the code.
alter table hourbell_nodes add column source text;
alter table hourbell_nodes add column jobs text not null default '[]';
