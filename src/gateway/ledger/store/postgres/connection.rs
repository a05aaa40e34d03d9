//! A connection with the statements that were prepared on it: those of exchanges are parsed and described once, not each time.

use std::{
    collections::HashMap,
    ops::{Deref, DerefMut},
};

use postgres::{Client, Statement};

/// Statements that are remembered: there are fewer, and none is made of what comes from outside.
const STATEMENTS_MAX: usize = 64;

/// A connection and its prepared statements.
pub(super) struct PreparingClient {
    client: Client,
    statements: HashMap<String, Statement>,
}

impl PreparingClient {
    /// A connection on which nothing is prepared.
    pub(super) fn new(client: Client) -> Self {
        Self { client, statements: HashMap::new() }
    }

    /// This statement, prepared on this connection.
    ///
    /// # Errors
    /// [`postgres::Error`] of the database or the connection.
    pub(super) fn prepared(&mut self, sql: &str) -> Result<Statement, postgres::Error> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(sql)?;
        if self.statements.len() < STATEMENTS_MAX {
            self.statements.insert(sql.to_owned(), statement.clone());
        }
        Ok(statement)
    }
}

impl Deref for PreparingClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for PreparingClient {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}
