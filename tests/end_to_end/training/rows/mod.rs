//! Training on rows of many kinds, and the vocabulary that they are made of.

mod csv_files;
mod first_rows;
mod layouts;
mod tokenized_rows;
mod vocabulary;
